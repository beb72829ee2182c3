/* handshake - who goes on when a body that waits has ended, and who wakes the joiners of a scope.
 *
 * Models     BODY: S1 of include/turnstile/detail/body.hpp (waiting_body), with what
 *            lib/strand/section_core.cpp does around start; else: scope_core.hpp and
 *            lib/resume/scope_core.cpp, J1 and J4, and K1 of stoppable_wait.hpp
 * Abstracts  sequentially consistent: memory orders are the business of test/schedule. The end of a
 *            body or of spawned work may come on any thread, or within its start.
 * Sizes      BODY: B requests one after the other, each with a body that waits. Else: W pieces of
 *            work, J coroutines that join, and M more pieces, spawned by work or by who has joined
 *            and then joins again; the first of them below a stop, which may come once, and then it
 *            joins again; the scope is destroyed after the last join
 * Checks     BODY: exactly one goes on, when both are done; the frame with the handshake is not
 *            touched after it was handed back. Else: each joiner is resumed, once, not before all
 *            work had ended unless it was withdrawn; its frame is not touched afterwards; the core is
 *            freed once and not touched afterwards
 *
 * Ablations  each must fail
 *   BODY LOOK_THEN_STORE      both sides look first: nobody goes on, or both do
 *   BODY END_LEAVES_IT        the end relies on the strand
 *   BODY STRAND_LEAVES_IT     the strand relies on the end
 *   BODY TOUCH_AFTER_RETURN   a look at the frame after the exchange has given it away
 *   BODY END_STORES           an end elsewhere only stores, as one within start does: nobody goes on
 *   BODY ACCOUNT_AFTER_START  the owner's fields are touched when the section may have gone on
 *   NO_LOOK_AFTER_ADD         a joiner that comes as the last work ends is never resumed
 *   NO_SECOND_LOOK            joiners are resumed though work was spawned since the first look
 *   FIRST_GOES_ON             a joiner is resumed while its own await_suspend still registers
 *   REGISTRATION_LEAVES_IT    await_suspend relies on whoever ends the wait
 *   STOP_DOES_NOT_ASK         a stop resumes who is being resumed already
 *   STAYS_LISTED              work that ends resumes who has been withdrawn
 *   STILL_LISTED              a stop takes what has been taken for the end of the work
 *   NO_DEREGISTRATION         a coroutine goes on while its callback is being called
 *   LINK_AFTER_RESUME         a joiner's link is read when it is in use again
 *   WORK_WITHOUT_SHARE        the last work looks for joiners in a core that one of them has freed
 *   JOIN_WITHOUT_SHARE        so does a joiner
 *   JOIN_WITHOUT_LOCK         two joiners come at once: one is lost
 *   TAKE_WITHOUT_LOCK         two take the same joiners
 */

#ifdef BODY

#ifndef B
#define B 2
#endif

mtype = { starting, returned_from, over };
mtype phase[B] = starting;

/* ghost */
bool may_start[B + 1], begun[B];
bool went_on[B];

/* The frame of a request goes when it is handed back. */
#define touch(r) assert(!went_on[r])

/* Goes on with the section: hands r back and starts the next. */
inline go_on(r) {
  assert(!went_on[r]);
  went_on[r] = true;
  may_start[r + 1] = true
}

inline exchange(r, mine, others) {
#ifdef LOOK_THEN_STORE
  atomic { touch(r); second = (phase[r] == others) };
  atomic { touch(r); phase[r] = mine }
#else
  atomic { touch(r); second = (phase[r] == others); phase[r] = mine }
#endif
}

proctype strand(byte r) {
  bool second;
  (may_start[r]);
  if
  :: atomic { touch(r); phase[r] = over } /* within start, on its thread */
  :: begun[r] = true
  fi;
  atomic { touch(r); second = (phase[r] == over) };
  if
  :: second
  :: else -> exchange(r, returned_from, over)
  fi;
  if
#ifdef STRAND_LEAVES_IT
  :: second
#else
  :: second -> atomic { go_on(r) }
#endif
  :: else ->
#ifdef TOUCH_AFTER_RETURN
     touch(r);
#endif
#ifdef ACCOUNT_AFTER_START
     assert(!may_start[r + 1]);
#endif
     skip
  fi
}

proctype body(byte r) {
  bool second;
end_within_start:
  (begun[r]);
#ifdef END_STORES
  atomic { touch(r); phase[r] = over }
#else
  exchange(r, over, returned_from);
#endif
  if
#ifdef END_LEAVES_IT
  :: second
#else
  :: second -> atomic { go_on(r) }
#endif
  :: else
  fi
}

init {
  byte p;
  atomic {
    may_start[0] = true;
    for (p : 0 .. B - 1) {
      run strand(p);
      run body(p)
    }
    p = 0
  };
  (may_start[B])
}

#else

#ifndef W
#define W 1
#endif
#ifndef J
#define J 2
#endif
#ifndef M
#define M 1
#endif

#define NONE 255
#define BIT(n) (1 << (n))

/* the core */
byte running, shares = 1;
byte joiners = NONE;
byte next[J];
bool listed[J];
bool locked;

/* the joiners' frames: K1, and whether the callback of a stop is being called */
bool one[J];
bool calling[J];

/* ghost */
byte spawned, finished; /* how many; which */
byte more = M, stops = 1;
bool resumed[J], withdrawn[J];
byte joined;
bool freed;

#define core() assert(!freed)
#define frame(j) assert(!resumed[j])

inline lock() { atomic { !locked -> core(); locked = true } }
inline unlock() { atomic { core(); locked = false } }

inline drop_share() {
  atomic {
    core();
    shares--;
    freed = (shares == 0)
  }
}

inline spawn() {
  atomic { core(); running++ };
  atomic {
    core();
#ifndef WORK_WITHOUT_SHARE
    shares++;
#endif
    run work(spawned);
    spawned++
  }
}

inline resume(j) {
  frame(j);
  resumed[j] = true
}

/* K1: the second one of who ended the wait and its await_suspend goes on with the coroutine. */
inline ended(j) {
  frame(j);
#ifdef FIRST_GOES_ON
  resume(j)
#else
  if
  :: one[j] -> resume(j)
  :: else -> one[j] = true
  fi
#endif
}

inline wake_if_idle() {
  atomic { core(); k = running };
  if
  :: k != 0 -> k = 0
  :: else ->
#ifndef TAKE_WITHOUT_LOCK
     lock();
#endif
     atomic { core(); k = running };
     if
#ifdef NO_SECOND_LOOK
     :: true ->
#else
     :: k == 0 ->
#endif
        atomic { core(); list = joiners };
        atomic {
          core();
          joiners = NONE;
          k = list;
          do
#ifndef STILL_LISTED
          :: k != NONE -> frame(k); listed[k] = false; k = next[k]
#else
          :: k != NONE -> k = NONE
#endif
          :: else -> break
          od
        }
     :: else
     fi;
#ifndef TAKE_WITHOUT_LOCK
     unlock();
#endif
     k = 0;
     do
     :: list != NONE ->
#ifdef LINK_AFTER_RESUME
        atomic { ended(list) };
        atomic { frame(list); list = next[list] }
#else
        atomic { k = next[list]; ended(list); list = k; k = 0 }
#endif
     :: else -> break
     od
  fi
}

/* The callback of a stop, if one is asked for. */
proctype stop(byte id) {
  byte k;
  bool mine;
  lock();
  atomic {
    core();
    mine = listed[id];
#ifdef STOP_DOES_NOT_ASK
    mine = true;
#endif
#ifndef STAYS_LISTED
    if
    :: listed[id] ->
       listed[id] = false;
       if
       :: joiners == id -> joiners = next[id]
       :: else ->
          k = joiners;
          do
          :: next[k] != id -> k = next[k]
          :: else -> break
          od;
          next[k] = next[id];
          k = 0
       fi
    :: else
    fi
#endif
  };
  unlock();
  if
  :: mine -> atomic { withdrawn[id] = true; ended(id) }
  :: else
  fi;
  calling[id] = false
}

proctype work(byte id) {
  byte k, list = NONE;
  if
  :: atomic { more != 0 -> more-- }; spawn()
  :: true
  fi;
  atomic {
    core();
    finished = finished | BIT(id);
    running--;
    k = running
  };
  if
  :: k == 0 -> wake_if_idle()
  :: else -> k = 0
  fi;
#ifndef WORK_WITHOUT_SHARE
  drop_share()
#endif
}

/* The thread goes on in wait, and then registers for a stop, the coroutine perhaps elsewhere. */
proctype rest_of_wait(byte id) {
  byte k, list = NONE;
#ifndef NO_LOOK_AFTER_ADD
  wake_if_idle();
#endif
#ifndef JOIN_WITHOUT_SHARE
  drop_share();
#endif
  if
  :: id == 0 ->
     if
     :: atomic { stops != 0 -> stops--; calling[0] = true; run stop(0) }
     :: true
     fi;
#ifndef REGISTRATION_LEAVES_IT
     atomic { ended(0) }
#endif
  :: else
  fi
}

proctype joiner(byte id) {
  byte k, all;
again:
  atomic { core(); all = BIT(spawned) - 1; k = running };
  if
  :: k == 0 -> goto passed
  :: else -> k = 0
  fi;
  assert(!listed[id]);
  atomic { resumed[id] = false; withdrawn[id] = false; one[id] = (id != 0) };
#ifndef JOIN_WITHOUT_SHARE
  atomic { core(); shares++ };
#endif
#ifdef JOIN_WITHOUT_LOCK
  atomic { core(); next[id] = joiners };
  atomic { core(); joiners = id; listed[id] = true };
#else
  lock();
  atomic { core(); next[id] = joiners };
  atomic { core(); joiners = id; listed[id] = true };
  unlock();
#endif
  run rest_of_wait(id);
  (resumed[id]);
#ifdef NO_DEREGISTRATION
  assert(!calling[id]);
#else
  (!calling[id]);
#endif
  if
  :: withdrawn[id] -> all = 0; goto again
  :: else
  fi;
passed:
  atomic { assert((finished & all) == all); all = 0; k = 0 };
  if
  :: atomic { more != 0 -> more-- }; spawn(); goto again
  :: joined++
  fi
}

init {
  byte p;
  atomic {
    for (p : 1 .. W) {
      spawn()
    }
    for (p : 0 .. J - 1) {
      run joiner(p)
    }
    p = 0
  };
  (joined == J);
  assert(running == 0);
  drop_share();
  (freed)
}

#endif
