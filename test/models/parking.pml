/* parking - how a pool's workers lie down and are woken.
 *
 * Models     lib/executor/sleepers.hpp, thread_pool.cpp, and what run_queue.hpp (Q3), fork_stack.hpp,
 *            injector.hpp and mailbox.hpp do to it
 * Abstracts  sequentially consistent: memory orders are the business of test/schedule. Jobs are
 *            only counted. A wake-up is one compare-and-swap with its load. A search looks at each
 *            place once: it neither naps nor leaves brisk workers alone. What a worker that has jobs
 *            takes from others (even_out.cpp) is tried in test/schedule. All workers have been
 *            started. No post from outside comes after the stop, but it may not have returned.
 * Sizes      W workers with room for Q jobs each in their queues, and for one fork; S threads outside
 *            that post once, one job or two; M more jobs may be posted by jobs, to the own worker or
 *            another's mail, or be forked; L jobs may be long: they end only when all others have. EARLY: the pool may stop
 *            as soon as everything from outside is posted, else when all has run
 * Checks     every job runs, also while all workers but one have long jobs: a lost wake-up leaves
 *            the last one asleep for ever; workers end only when nothing is left; nobody outside
 *            touches a pool that is gone; the end is declared when no job runs
 *
 * Ablations  each must fail
 *   WAKE_BEFORE_PUSH          woken before there is anything to find
 *   NO_LOOK_AFTER_LIE_DOWN    a post that saw the worker searching woke nobody
 *   LAST_DOES_NOT_LOOK        the last searcher goes off with its job: the same
 *   NO_WAKE_AFTER_POST        a job's own posts wait behind it
 *   NO_WAKE_AFTER_FORK        so does what it forks
 *   FORKS_AFTER_MAIL          a worker keeps its only mail, hidden for a moment, and goes on with a fork
 *   NO_LOOK_AT_FORKS          who lies down does not see what was forked meanwhile
 *   NO_WAKE_AFTER_HAND_BACK   so does what it put into another's mail
 *   NO_WAKE_AFTER_MOVE        what was taken in one go and left in the queue was hidden from who
 *                             lay down meanwhile
 *   NO_WAKE_AFTER_MAIL        the same for mail that is kept
 *   NO_TOKEN_AFTER_LOST_RACE  who gets up leaves the token of the wake-up that was faster
 *   WAKE_BY_STORE             two wake-ups by load and store are one
 *   STOP_WITHOUT_WAKE         the sleepers never hear of the stop
 *   END_WITHOUT_TOKENS        nor of the end
 *   END_WITHOUT_LOOK          the end is declared without a look at what is left
 *   STOP_READ_LATE            `stopping` is read only after the look: what was posted between is
 *                             lost
 *   STOP_READ_EARLY           it is read before lying down: a stop in between is lost
 *   COUNT_EARLY               who lies is counted before the look: somebody may have got up since
 *   TOKENS_FOR_SLEEPERS_ONLY  who lies down after the last wake-up sleeps for ever
 *   WAKE_AFTER_UNLOCK         a post from outside wakes when its job may have ended the pool
 */

#ifndef W
#define W 2
#endif
#ifndef S
#define S 2
#endif
#ifndef M
#define M 1
#endif
#ifndef L
#define L (W - 1)
#endif
#ifndef Q
#define Q 2
#endif

/* the sleepers' word and tokens */
byte sleeping, searching, tokens;

/* where jobs are */
byte injected;
bool locked;
byte forks[W], queue[W], mail[W], overflow[W];

bool stopping;
bool ended; /* there are tokens for everybody */

/* ghost */
byte to_come = S;     /* posts from outside */
byte left = S;        /* jobs, or those that will be */
byte more = M;
byte longs;           /* long jobs begun */
byte running;         /* jobs, without the long ones */
byte at_work = W;
bool gone;

#define alive() assert(!gone)
#define OTHER ((id + v) % W)
#define max_half(n) ((n) - (n) / 2)

inline wake_one() {
#ifdef WAKE_BY_STORE
  atomic { alive(); n = sleeping; k = searching };
  atomic {
    if
    :: n != 0 && k == 0 -> sleeping = n - 1; searching = 1; n = 1
    :: else -> n = 0
    fi;
    k = 0
  };
#else
  atomic {
    alive();
    if
    :: sleeping != 0 && searching == 0 -> sleeping--; searching++; n = 1
    :: else -> n = 0
    fi
  };
#endif
  if
  :: n != 0 -> atomic { alive(); tokens++; n = 0 }
  :: else
  fi
}

/* By the worker itself: k jobs. */
inline keep() {
  if
  :: overflow[id] == 0 && k <= Q - queue[id] -> queue[id] = queue[id] + k
  :: else -> overflow[id] = overflow[id] + k; wake_one()
  fi
}

inline keep_mail(v) {
  atomic {
    if
    :: mail[v] != 0 -> k = mail[v]; mail[v] = 0
    :: else
    fi
  };
  if
  :: k != 0 ->
     keep();
#ifndef NO_WAKE_AFTER_MAIL
     if
     :: k > 1 -> wake_one()
     :: else
     fi;
#endif
     k = 0
  :: else
  fi
}

/* k jobs were taken: one is run, the others are kept. */
inline first_of() {
  if
  :: k > 1 ->
     queue[id] = queue[id] + k - 1;
#ifndef NO_WAKE_AFTER_MOVE
     wake_one();
#endif
  :: else
  fi;
  k = 0
}

/* Whether there is anything to do: k. */
inline look_at_all() {
  k = (injected != 0);
  v = 0;
  do
  :: k == 0 && v < W -> k = (queue[v] != 0);
#ifndef NO_LOOK_AT_FORKS
     if
     :: k == 0 -> k = (forks[v] != 0)
     :: else
     fi;
#endif
     if
     :: k == 0 -> k = (mail[v] != 0)
     :: else
     fi;
     if
     :: k == 0 -> k = (overflow[v] != 0)
     :: else
     fi;
     v++
  :: else -> break
  od;
  v = 0
}

inline take_overflow(v) {
  k = overflow[v] / 2 + 1;
  if
  :: k > overflow[v] -> k = overflow[v]
  :: else
  fi;
  if
  :: k > Q - queue[id] + 1 -> k = Q - queue[id] + 1
  :: else
  fi;
  overflow[v] = overflow[v] - k
}

inline take_injected() {
  k = (overflow[id] != 0 -> 1 : injected / W + 1);
  if
  :: k > injected -> k = injected
  :: else
  fi;
  if
  :: k > Q - queue[id] + 1 -> k = Q - queue[id] + 1
  :: else
  fi;
  injected = injected - k
}

proctype worker(byte id) {
  byte n, k, v;
  bool seeking, all_down, stop_seen;

next_job:
#ifdef FORKS_AFTER_MAIL
  keep_mail(id);
#endif
  if
  :: atomic { forks[id] != 0 -> forks[id]--; goto got }
  :: true /* there are none, or others have a turn */
  fi;
#ifndef FORKS_AFTER_MAIL
  keep_mail(id);
#endif
  if
  :: atomic { queue[id] != 0 -> queue[id]--; goto got }
  :: atomic { queue[id] == 0 && overflow[id] != 0 -> take_overflow(id) }; first_of(); goto got
  :: atomic { injected != 0 && !locked -> take_injected() }; first_of(); goto got
  :: atomic { forks[id] != 0 && queue[id] == 0 && overflow[id] == 0 -> forks[id]--; goto got }
  :: atomic { forks[id] == 0 && queue[id] == 0 && overflow[id] == 0 && injected == 0 }
  fi;
  if
  :: seeking
  :: else -> atomic { searching++; seeking = true; goto next_job }
  fi;

  v = 1;
rob:
  if
  :: atomic { v < W && forks[OTHER] != 0 -> forks[OTHER] = forks[OTHER] - 1; v = 0; goto got }
  :: v < W && forks[OTHER] == 0 && !(queue[OTHER] != 0) ->
     if
     :: mail[OTHER] != 0 ->
        keep_mail(OTHER);
        atomic { v = 0; goto next_job }
     :: else
     fi;
     if
     :: atomic { overflow[OTHER] != 0 -> take_overflow(OTHER); v = 0 }; first_of(); goto got
     :: else -> v++; goto rob
     fi
  :: atomic { v < W && queue[OTHER] != 0 ->
       k = max_half(queue[OTHER]);
       queue[OTHER] = queue[OTHER] - k;
       v = 0
     };
     atomic { queue[id] = queue[id] + k - 1; k = 0; goto got }
  :: v == W -> v = 0
  fi;
  if
  :: atomic { injected != 0 && !locked -> take_injected() }; first_of(); goto got
  :: injected == 0
  fi;
  goto lie_down;

got:
  if
  :: seeking ->
     atomic { searching--; seeking = false; v = (searching == 0) };
#ifndef LAST_DOES_NOT_LOOK
     if
     :: v != 0 ->
        look_at_all();
        if
        :: k != 0 -> k = 0; wake_one()
        :: else
        fi
     :: else
     fi;
#endif
     v = 0
  :: else
  fi;
  running++;
  do
  :: atomic { more != 0 -> more--; left++; k = 1 }; /* post */
#ifdef WAKE_BEFORE_PUSH
     wake_one();
     keep();
#else
     keep();
# ifndef NO_WAKE_AFTER_POST
     wake_one();
# endif
#endif
     k = 0
  :: atomic { /* fork */
       more != 0 && forks[id] == 0 -> more--;
       left++;
       forks[id] = 1
     };
#ifndef NO_WAKE_AFTER_FORK
     wake_one()
#endif
  :: atomic { /* hand back */
       more != 0 -> more--;
       left++;
       select (v : 1 .. W - 1);
       mail[OTHER] = mail[OTHER] + 1;
       v = 0
     };
#ifndef NO_WAKE_AFTER_HAND_BACK
     wake_one()
#endif
  :: atomic { longs < L -> longs++; running-- }; /* wait for all others */
     (left <= longs);
     atomic { longs--; left--; goto next_job }
  :: atomic { running--; left--; goto next_job }
  od;

lie_down:
#ifdef STOP_READ_EARLY
  stop_seen = stopping;
#endif
  atomic {
    searching--;
    sleeping++;
    all_down = (searching == 0 && sleeping == W)
  };
#if !defined(STOP_READ_EARLY) && !defined(STOP_READ_LATE)
  stop_seen = stopping;
#endif
#ifndef NO_LOOK_AFTER_LIE_DOWN
# ifdef END_WITHOUT_LOOK
  if
  :: all_down && stop_seen
  :: else -> look_at_all()
  fi;
# else
  look_at_all();
# endif
#endif
#ifdef STOP_READ_LATE
  stop_seen = stopping;
#endif
#ifndef COUNT_EARLY
  atomic { all_down = (sleeping == W && searching == 0) };
#endif
  if
  :: k != 0 ->
     atomic {
       k = 0;
       if
       :: sleeping != 0 -> sleeping--; searching++; goto up
#ifdef NO_TOKEN_AFTER_LOST_RACE
       :: else -> goto up
#else
       :: else -> goto sleep
#endif
       fi
     }
  :: k == 0 && all_down && stop_seen ->
     assert(running + longs == 0);
     ended = true;
#ifdef TOKENS_FOR_SLEEPERS_ONLY
     atomic { n = sleeping; sleeping = 0; searching = searching + n };
     atomic { tokens = tokens + n; n = 0 };
#endif
     goto up
  :: else
  fi;
sleep:
#if defined(END_WITHOUT_TOKENS) || defined(TOKENS_FOR_SLEEPERS_ONLY)
  atomic { tokens != 0 -> tokens-- };
#else
  if
  :: atomic { !ended && tokens != 0 -> tokens-- }
  :: ended
  fi;
#endif
up:
  atomic { all_down = false; stop_seen = false };
  if
  :: ended
  :: else -> goto next_job
  fi;
  at_work--
}

proctype outside() {
  byte n, k;
  if
  :: k = 1
  :: k = 2
  fi;
#ifdef WAKE_BEFORE_PUSH
  wake_one();
#endif
  atomic {
    !locked -> locked = true;
    injected = injected + k;
    left = left + k - 1;
    to_come--;
    k = 0
  };
#ifdef WAKE_AFTER_UNLOCK
  locked = false;
  wake_one()
#else
# ifndef WAKE_BEFORE_PUSH
  wake_one();
# endif
  atomic { alive(); locked = false }
#endif
}

proctype destroyer() {
  byte n, k;
#ifdef EARLY
  (to_come == 0);
#else
  (left == 0);
#endif
  stopping = true;
#ifndef STOP_WITHOUT_WAKE
  wake_one();
#endif
  atomic {
    at_work == 0;
    assert(left == 0);
    gone = true
  }
}

init {
  byte p;
  atomic {
    for (p : 0 .. W - 1) {
      run worker(p)
    }
    for (p : 1 .. S) {
      run outside()
    }
    p = 0;
    run destroyer()
  }
}
