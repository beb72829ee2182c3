/* keeping - a section stays with the thread that comes back to it, until somebody takes it away.
 *
 * Models     include/turnstile/detail/keeper.hpp, lib/base/keeper.cpp, lib/strand/keeping.cpp, and the
 *            kept bit of ticket_word.hpp
 * Abstracts  sequentially consistent but for what the keeping thread stores without a
 *            read-modify-write: that waits in a buffer, in order, and gets out at any time, with the
 *            thread's next read-modify-write, or with somebody's heavy fence. Its loads do not wait.
 *            The ring is a set of published tickets and one mark: how, is in ticket_ring. A body
 *            ends in the step that it begins in. Whoever gets the section serves it itself, also who
 *            would pass it on. There is one section and one thread that keeps it; when it does, and
 *            when it gives it up, is a choice. A withdrawn request is in line until it is passed over.
 * Sizes      the thread has K requests, one after the other, but for one that its body may start; P
 *            others have J requests each
 *              WITHDRAW  the others may withdraw what they have published
 *              SPECIAL   somebody makes the section special
 *              GUARD     the thread may have a request run as a guard that is let go on another thread
 *            and one ends the section
 * Checks     one owner at a time, and whoever is inside is one; each request runs once, in order, and
 *            is handed back, or was withdrawn; what the thread asks for once it may know that
 *            somebody is queued runs behind that; nobody goes in the short way once it may know that
 *            the section is special; nobody touches a section that is gone, which it may be as soon as
 *            the last body's result is handed back; it is idle then, and no longer kept; each body is
 *            counted, and what the thread has run is so when it goes on
 *
 * Ablations  each must fail
 *   NO_HEAVY_FENCE         whoever wants it sees an old `outside`
 *   ENTER_DOES_NOT_LOOK    the thread goes into what was taken away
 *   LEAVE_DOES_NOT_LOOK    nobody serves whoever saw it inside
 *   ALWAYS_TAKES           nobody looks whether it is inside
 *   TAKE_BY_STORE          taken by a look and a store: two own the section
 *   FORGET_BY_STORE        the same by its thread
 *   FORGET_TAKES_NOTHING   its thread leaves what is wanted to the others, who left it to the thread
 *   WANTS_NOTHING          who is queued wants nothing: it waits for ever
 *   ONLY_FIRST_WANTS       or leaves that to the one before it: what the thread asks for next overtakes
 *   SECOND_TAKES           who comes second takes it at once, as if nobody were before it
 *   NO_EPOCH               who comes late takes a later keeping away, and is not in line any more
 *   SEEN_AFTER_PUBLISH     a look at the section when the request may have run
 *   LOSER_TOUCHES_SECTION  the same by who has not got the section
 *   LEAVE_TOUCHES_SECTION  the thread looks at the section when it has left
 *   KEEP_BY_STORE          the bit set by a load and a store: an arrival between is lost
 *   KEEP_IGNORES_SPECIAL   no look at what is special after the bit was set
 *   SPECIAL_TAKES_NOTHING  no look at the bit after the section was made special
 *   COUNTS_NOTHING         who takes it does not add what its thread has run
 *   COUNT_IS_FORGOTTEN     what the thread has run is not counted any more when it finds that it was taken, and
 *                          not yet in the section
 *   END_AT_ONCE            the section ends while its thread gives it up
 *   WITHDRAW FORGETS_FIRST the thread forgets what it gives up before it has left it: the end does not wait
 *                          for that
 *   WITHDRAW END_AT_BIT    the end waits for the bit only: the thread still passes over who was
 *                          withdrawn
 *   GUARD OUT_AT_ONCE      the thread is outside again as soon as its guard is elsewhere
 *   GUARD OUT_WHEN_WANTED  it is when somebody wants what the guard has
 *   GUARD DOES_NOT_COUNT   what was kept is not counted when a guard ends that
 */

#ifndef K
#define K 3
#endif
#ifndef P
#define P 2
#endif
#ifndef J
#define J 1
#endif

#define R (K + P * J)
#define ALL ((1 << R) - 1)
#define BIT(n) (1 << (n))
#define NOBODY 255

/* the keeper's word */
#define FREE 0
#define KEPT 1
#define WANTED 2
#define TAKEN 3
#define GIVEN 4
#define IN(e, state) ((e) * 8 + (state))
#define state_of(w) ((w) % 8)

/* in the buffer: a value of `outside`, that it is 1 after one more body, a word, as epochs begin with 1, or that
   the last request is over */
#define RETURNED 2
#define ENDED 3

/* the keeper */
bool outside = true; /* the number of bodies is even */
byte word;
byte counted; /* the bodies that it counts */
byte since; /* executions of the section when it was kept, less that, mod 256 */
byte executions; /* of the section, less what its keeper has counted */
chan buffer = [4] of { byte };

/* the section */
byte ticket, pending;
bool kept, special;
byte line;   /* the tickets that are published */
byte parked; /* ticket + 1 */
byte head;   /* private to the owner */

#ifdef OUT_WHEN_WANTED
#define guard_is_out() (word != IN(e, KEPT))
#else
#define guard_is_out() (word == IN(e, FREE))
#endif

/* ghost */
byte request_of[R];
byte owner = NOBODY;
byte ran, n_ran, withdrawn, back;
byte last;
byte told;    /* who may be known to be queued */
byte must[K]; /* who was, when the thread asked */
byte guarded; /* request + 1 whose guard has gone elsewhere, and is not let go yet */
byte its_guard; /* who lets it go */
bool special_over;
bool gone;

#define alive() assert(!gone)
#define mine() assert(!gone && owner == _pid)

inline own() {
  assert(!gone && owner == NOBODY);
  owner = _pid
}

inline apply(v) {
  if
  :: v == RETURNED -> back = back | BIT(K - 1)
  :: v == ENDED -> counted++; outside = true
  :: v < RETURNED -> outside = v
  :: v > ENDED -> word = v
  fi
}

/* Within atomic. */
inline flush() {
  do
  :: buffer?v -> apply(v)
  :: empty(buffer) -> break
  od;
  v = 0
}

inline body(r) {
  mine();
  assert((ran & BIT(r)) == 0);
  if
  :: r < K -> assert((must[r] & ~(ran | withdrawn)) == 0); must[r] = 0
  :: else
  fi;
  ran = ran | BIT(r);
  n_ran++;
  last = r
}

/* By the owner, until the section is left. What has run is handed back then. */
inline serve() {
  do
  :: atomic {
       mine();
       if
       :: (line & BIT(head)) != 0 ->
          line = line & ~BIT(head);
          if
          :: (withdrawn & BIT(request_of[head])) == 0 ->
             body(request_of[head]);
             executions++;
             done = done | BIT(request_of[head])
          :: else
          fi;
          head++
       :: else -> parked = head + 1; owner = NOBODY; break
       fi
     };
     atomic {
       mine();
       pending--;
       if
       :: pending == 0 -> owner = NOBODY; break
       :: else
       fi
     }
  od;
  atomic { back = back | done; done = 0 }
}

/* By the owner: it is kept no longer. */
inline let_go() {
  atomic {
    mine();
    kept = false;
    pending--;
    left = (pending == 0);
    if
    :: left -> owner = NOBODY
    :: else
    fi
  };
  if
  :: left -> left = false
  :: else -> serve()
  fi
}

inline look_who_keeps() {
  atomic {
    alive();
    if
    :: state_of(word) == KEPT || state_of(word) == WANTED -> seen = word / 8
    :: else -> seen = 0
    fi
  }
}

/* seen: 0, somebody else wants it already, or it is over. */
inline want() {
  atomic {
    if
    :: seen != 0 && word == IN(seen, KEPT) -> word = IN(seen, WANTED)
    :: else -> seen = 0
    fi
  }
}

/* Does not touch the section before it is owned. got: TAKEN; KEPT, its thread is inside; FREE, over. */
inline revoke() {
  atomic {
    got = TAKEN;
    if
    :: word == IN(seen, WANTED)
    :: else -> got = FREE; seen = 0
    fi
  };
  if
  :: got == FREE
  :: else ->
#ifndef NO_HEAVY_FENCE
     atomic { flush() };
#endif
#ifdef ALWAYS_TAKES
     left = true;
#else
     atomic { left = outside; n_counted = counted };
#endif
     if
     :: !left -> atomic { got = KEPT; seen = 0 }
     :: else ->
#ifdef TAKE_BY_STORE
        left = (word == IN(seen, WANTED));
        atomic {
          if
          :: left -> word = IN(seen, TAKEN); own(); got = TAKEN
#else
        atomic {
          if
          :: word == IN(seen, WANTED) -> word = IN(seen, TAKEN); own()
#endif
          :: else -> got = FREE; seen = 0
          fi;
          left = false
        };
        if
        :: got == TAKEN ->
#ifndef COUNTS_NOTHING
           atomic { mine(); executions = since + n_counted; n_counted = 0 };
#endif
           atomic { word = IN(seen, FREE); seen = 0; n_counted = 0 }
        :: else -> n_counted = 0
        fi
     fi
  fi
}

/* By who was queued at p, kept_then. */
inline publish() {
#ifndef SEEN_AFTER_PUBLISH
  if
  :: kept_then -> look_who_keeps()
  :: else
  fi;
#endif
  atomic {
    alive();
    if
    :: parked == p + 1 -> parked = 0; own(); seen = 0; kept_then = false; got = TAKEN
    :: else -> got = FREE
    fi;
    line = line | BIT(p);
    p = 0
  };
  if
  :: got == TAKEN -> serve()
  :: else ->
#ifdef SEEN_AFTER_PUBLISH
     if
     :: kept_then -> look_who_keeps()
     :: else
     fi;
#endif
     kept_then = false;
#ifdef WANTS_NOTHING
     seen = 0;
#endif
     want();
     if
     :: seen == 0
     :: else ->
        revoke();
        if
        :: got == TAKEN -> assert(pending > 1); let_go()
#ifdef LOSER_TOUCHES_SECTION
        :: else -> alive()
#else
        :: else
#endif
        fi
     fi
  fi;
  got = 0
}

inline arrive(r) {
  alive();
  p = ticket;
  request_of[p] = r;
  ticket++;
  kept_then = kept;
#ifdef ONLY_FIRST_WANTS
  kept_then = kept && pending == 1;
#endif
#ifdef SECOND_TAKES
  first = kept;
#else
  first = kept && pending == 1;
#endif
  pending++;
  if
  :: pending == 1 -> own()
  :: else
  fi
}

/* After arrive: who is first where it is kept takes it at once, unless it sees somebody inside. */
inline take_first() {
  if
  :: first -> first = false;
     if
     :: true -> look_who_keeps()
     :: true -> seen = 0
     fi;
     want();
     if
     :: seen == 0
     :: else ->
        revoke();
        if
        :: got == TAKEN ->
           atomic { mine(); assert(pending > 1 && head == p); kept = false; pending--; kept_then = false }
        :: else
        fi;
        got = 0
     fi
  :: else
  fi
}

/* left: it was wanted, and the thread has taken it. */
inline take_back() {
#ifdef FORGET_TAKES_NOTHING
  skip;
#elif defined(FORGET_BY_STORE)
  left = (word == IN(e, WANTED));
  if
  :: left -> atomic { flush(); word = IN(e, TAKEN); own() }
  :: else
  fi
#else
  atomic {
    flush();
    if
    :: word == IN(e, WANTED) -> word = IN(e, TAKEN); left = true; own()
    :: else
    fi
  }
#endif
}

inline forget_taken() {
  if
  :: has -> atomic { keeps = false; has = false }
  :: else -> atomic { nfull(buffer) -> buffer!1; keeps = false }
  fi
}

inline forget() {
  atomic { nfull(buffer) -> buffer!IN(e, FREE) };
  forget_taken()
}

/* By the owner: what the number counts, which nobody else changes. */
inline count() {
  atomic { flush(); mine(); executions = since + counted }
}

inline stop_keeping() {
  take_back();
  if
  :: left -> left = false; count(); forget(); let_go()
  :: else -> forget_taken()
  fi
}

inline give_up() {
#ifdef FORGETS_FIRST
  atomic {
    flush();
    if
    :: word == IN(e, KEPT) || word == IN(e, WANTED) -> word = IN(e, GIVEN); own(); took = true
    :: else
    fi
  };
  if
  :: took -> took = false; count(); forget(); let_go()
  :: else -> forget_taken()
  fi
#else
  atomic {
    flush();
    if
    :: word == IN(e, KEPT) || word == IN(e, WANTED) -> word = IN(e, GIVEN); own(); took = true
    :: else
    fi
  };
  if
  :: took -> took = false; count(); let_go(); forget()
  :: else -> forget_taken()
  fi
#endif
}

/* By the thread, which is inside. */
inline leave(out) {
  atomic { nfull(buffer) -> mine(); owner = NOBODY; buffer!out; has = true };
#ifdef LEAVE_TOUCHES_SECTION
  alive();
#endif
#ifndef LEAVE_DOES_NOT_LOOK
  if
  :: word == IN(e, KEPT)
  :: else -> stop_keeping()
  fi
#endif
}

proctype keeping_thread() {
  byte asked, r, n, p, v, e, seen, got, done, n_counted, shortly, known;
  bool has, keeps, took, left, first, kept_then, knows, is_inside;
again:
#ifdef GUARD
  /* stays_inside, and what it finds */
  if
#ifdef OUT_AT_ONCE
  :: is_inside -> is_inside = false; has = true; buffer!1
#else
  :: is_inside && guard_is_out() -> is_inside = false; forget_taken()
#endif
  :: true
  fi;
#endif
  if
  :: asked < K ->
     atomic { r = asked; asked++; must[r] = told; knows = special && special_over };
     if
     :: has -> goto inside
     :: true -> goto asks /* a body that may wait */
     fi
  :: keeps && !is_inside -> give_up(); goto again
  :: asked == K -> goto ended
  fi;
inside:
  atomic { nfull(buffer) -> buffer!0; has = false };
  atomic {
    if
#ifdef ENTER_DOES_NOT_LOOK
    :: true -> own(); assert(!knows); goto runs
#else
    :: word == IN(e, KEPT) -> own(); assert(!knows); goto runs
#endif
    :: else
    fi
  };
  stop_keeping();
  goto asks;
runs:
  if
  :: asked < K -> /* something that the body starts asks as well */
     atomic {
       n = asked;
       asked++;
       must[n] = told;
       flush();
       arrive(n)
     };
     take_first();
     assert(owner == _pid);
     publish()
  :: true
  fi;
  atomic { body(r) };
#ifdef GUARD
  /* What its coroutine was told by its thread, it was told after all the thread has stored. */
  if
  :: n == 0 && guarded == 0 -> atomic { flush(); owner = its_guard; guarded = r + 1; is_inside = true; r = 0 }; goto again
  :: true
  fi;
#endif
  shortly++;
  leave(ENDED);
  if
  :: n != 0 -> (back & BIT(n)); n = 0; known++
  :: else
  fi;
  goto answered;
asks:
  atomic { flush(); arrive(r) };
  take_first();
  if
  :: owner == _pid -> atomic { body(r); executions++; head = p + 1 }
  :: else ->
     publish();
     (back & BIT(r));
     goto answered
  fi;
  if
  :: atomic { !special && !keeps -> flush(); state_of(word) == FREE -> goto keep }
  :: true
  fi;
ends:
  atomic {
    mine();
    pending--;
    p = 0;
    left = (pending == 0);
    if
    :: left -> owner = NOBODY
    :: else
    fi
  };
  if
  :: left -> left = false
  :: else -> serve()
  fi;
  goto answered;
keep:
#ifdef NO_EPOCH
  e = 1;
#else
  e++;
#endif
  atomic { nfull(buffer) -> mine(); since = executions - counted; buffer!0 };
  atomic { nfull(buffer) -> buffer!IN(e, KEPT); keeps = true };
#ifdef KEEP_BY_STORE
  atomic { flush(); mine(); left = (pending == 1 && ticket == p + 1) };
#endif
  atomic {
    flush();
    mine();
    if
#ifdef KEEP_BY_STORE
    :: left -> kept = true; pending = 1; ticket = p + 1; left = false; p = 0
#else
    :: pending == 1 && ticket == p + 1 -> kept = true; p = 0
#endif
    :: else -> goto not_kept
    fi
  };
#ifdef KEEP_IGNORES_SPECIAL
  took = false;
#else
  atomic { mine(); took = special };
#endif
  leave(1);
  if
  :: took && keeps -> took = false; give_up()
  :: else -> took = false
  fi;
  goto answered;
not_kept:
  forget();
  goto ends;
answered:
  atomic {
    known++;
    /* what its statistics say: since and shortly, also before that gets out of the buffer */
#ifdef COUNT_IS_FORGOTTEN
    assert(executions >= known || (keeps && since + shortly >= known));
#else
    assert(executions >= known || (e != 0 && since + shortly >= known));
#endif
  };
  if
  :: r == K - 1 -> buffer!RETURNED
  :: else
  fi;
  goto again;
ended:
}

#ifdef GUARD
/* A guard that is let go elsewhere: hold_kept and release_hold. */
proctype elsewhere() {
  byte e, done;
  bool left;
end:
  (guarded != 0);
  mine();
  e = word / 8;
  atomic {
    mine();
#ifdef DOES_NOT_COUNT
    executions++
#else
    executions = since + counted + 1
#endif
  };
  atomic { mine(); kept = false };
  atomic { word = IN(e, FREE); e = 0 };
  done = BIT(guarded - 1);
  atomic {
    mine();
    pending--;
    left = (pending == 0);
    if
    :: left -> owner = NOBODY
    :: else
    fi
  };
  guarded = 0;
  if
  :: left -> atomic { left = false; back = back | done; done = 0 }
  :: else -> serve()
  fi;
  goto end
}
#endif

proctype other(byte id) {
  byte i, p, v, seen, got, done, n_counted;
  bool left, first, kept_then;
  do
  :: i < J ->
     atomic { arrive(K + id * J + i) };
     take_first();
     if
     :: owner == _pid -> atomic { head = p; line = line | BIT(p); p = 0 }; serve()
     :: else ->
        publish();
        told = told | BIT(K + id * J + i)
     fi;
     if
     :: atomic { (back & BIT(K + id * J + i)) -> i++ }
#ifdef WITHDRAW
     :: atomic {
          (ran & BIT(K + id * J + i)) == 0 ->
          withdrawn = withdrawn | BIT(K + id * J + i);
          i++
        }
#endif
     fi
  :: else -> break
  od
}

/* K4: what makes the section special. */
proctype special_maker() {
  byte v, seen, got, done, n_counted;
  bool left;
  atomic { alive(); special = true };
#ifndef SPECIAL_TAKES_NOTHING
  atomic { alive(); left = kept };
  if
  :: left ->
     left = false;
     look_who_keeps();
     want();
     if
     :: seen == 0
     :: else ->
        revoke();
        if
        :: got == TAKEN -> let_go()
        :: else
        fi
     fi
  :: else
  fi;
#endif
  special_over = true
}

proctype destroyer() {
  byte v, seen, got, done, n_counted;
  bool left;
  ((ran | withdrawn) == ALL && (back & BIT(last)) && special_over);
  do
  :: atomic { !kept -> break }
  :: kept ->
     look_who_keeps();
     if
     :: seen == 0 -> got = FREE
     :: else ->
        atomic {
          if
          :: word == IN(seen, KEPT) -> word = IN(seen, WANTED)
          :: else
          fi
        };
        revoke()
     fi;
     if
     :: got == TAKEN -> let_go(); break
     :: got == KEPT -> break /* a body runs: the section must not end */
#ifdef END_AT_ONCE
     :: else -> break
#else
     :: else
#endif
     fi
  od;
#if !defined(END_AT_ONCE) && !defined(END_AT_BIT)
  (state_of(word) != GIVEN);
#endif
  atomic {
    assert(pending == 0 && !kept && owner == NOBODY && (told & ~(ran | withdrawn)) == 0);
    assert(executions == n_ran);
    gone = true
  }
}

/* What gets out of the buffer by itself. */
proctype memory() {
  byte v;
end:
  do
  :: atomic { buffer?v -> apply(v); v = 0 }
  od
}

init {
  byte id;
  atomic {
    run memory();
    run keeping_thread();
#ifdef GUARD
    its_guard = run elsewhere();
#endif
    for (id : 0 .. P - 1) {
      run other(id)
    }
    id = 0;
#ifdef SPECIAL
    run special_maker();
#else
    special_over = true;
#endif
    run destroyer()
  }
}
