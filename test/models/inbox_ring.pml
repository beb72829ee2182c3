/* inbox_ring - one word: busy, closed and the newest request.
 *
 * Models     include/turnstile/detail/inbox_ring.hpp, lib/ring/inbox_ring.cpp, and of
 *            lib/strand/section_core.cpp the loop that serves: batches, hand-back, pass-on
 * Abstracts  sequentially consistent: memory orders are the business of test/schedule. What only
 *            the owner touches is one step with the access beside it, and `owner` asserts that
 *            there is one owner. A compare-and-swap fails only for a reason. The budget is a choice
 *            after each body: go on, hand back, pass on.
 * Sizes      P coroutines with K requests each, one after the other and with the same node, so that
 *            the word sees a node come back; C = 1: one closes the section meanwhile
 * Checks     one owner at a time; served in the order of getting into the word, each once;
 *            everything answered (else the destroyer waits for ever); idle or closed at the end;
 *            nothing accepted is left when closing is done; more is never given back than was
 *            counted; nobody touches a section that is gone, which it is after the last answer
 *
 * Ablations  each must fail
 *   RESUME_BEFORE_IDLE   the last result is handed back while the word is still to be told
 *   RESET_AFTER_IDLE     a private field written after the word says idle: it is the next owner's
 *   LEAVE_BY_STORE       the uncontended end stores idle: a request pushed meanwhile is lost
 *   IDLE_BY_STORE        the same at the end of serving
 *   TAKE_BY_STORE        the chain taken by a load and a store: a push between is lost
 *   PUSH_BY_STORE        pushed by a load and a store: what came between is lost
 *   NO_TAKE_OVER         pushed to an idle word: nobody owns the section
 *   NO_TURNING           the chain is served newest first
 *   LINK_AFTER_BODY      a request's link is read when it may be in use again
 *   NO_LINK_RESET        who takes over keeps a link from a push that failed
 *   COUNT_AFTER_PUSH     counted when the owner may have given it back already
 *   TAKE_DROPS_CLOSED    taking the chain opens the section again
 *   IDLE_DROPS_CLOSED    so does leaving it
 *   PUSH_IGNORES_CLOSED  who was queued before the close gets in behind the closing request
 *   LAST_IS_REFUSED      the closing request is refused like others
 */

#ifndef P
#define P 2
#endif
#ifndef K
#define K 2
#endif
#ifndef C
#define C 1
#endif

#define CLOSER P
#define JOB (P + C)
#define NONE 255
#define NOBODY 255
#define POSTED 254

/* the word, and the count */
byte newest = NONE;
bool closed, busy;
byte waiting;

/* the requests: the link, and whether the answer is there */
byte older[P + C];
bool answered[P + C];

/* private to the owner */
byte first = NONE;
short counted;

/* ghost */
byte owner = NOBODY;
byte in_line, turn;
byte place[P + C];
byte ended;
bool close_done;
bool gone;

#define alive() assert(!gone)
#define mine() assert(!gone && owner == _pid)
#define same() (newest == seen && closed == seen_closed && busy == seen_busy)

inline look() {
  alive();
  seen = newest;
  seen_closed = closed;
  seen_busy = busy
}

inline forget() {
  seen = NONE;
  seen_closed = false;
  seen_busy = false
}

inline get_in(r) {
  place[r] = in_line;
  in_line++
}

inline own() {
  assert(owner == NOBODY);
  owner = _pid
}

inline account() {
  if
  :: counted > 0 ->
     alive();
     assert(waiting >= counted);
     waiting = waiting - counted;
     counted = 0
  :: else
  fi
}

/* Results are local: who gets one goes on when it is delivered. */
inline deliver() {
  d_step {
    for (n : 0 .. P - 1) {
      if
      :: done[n] -> done[n] = false; answered[n] = true
      :: else
      fi
    }
    n = 0
  }
}

proctype party(byte id) {
  byte i, n, cur, seen = NONE;
  bool seen_closed, seen_busy;
  bool done[P];
#ifdef LINK_AFTER_BODY
  bool taken;
#endif
  if
  :: id < P
  :: id == JOB ->
end_wait:
     atomic { owner == POSTED -> owner = _pid; goto next }
  :: C == 1 && id == CLOSER -> goto close
  fi;

issue:
  i++;
  atomic { /* arrive */
    alive();
    cur = id;
    answered[id] = false;
    if
    :: newest == NONE && !closed && !busy -> busy = true; own(); get_in(id)
    :: closed -> goto finished
    :: else -> goto push
    fi
  };
  if
  :: atomic { /* the uncontended path */
       mine();
       assert(place[id] == turn);
       turn++
     };
#ifdef LEAVE_BY_STORE
     atomic { look() };
     atomic {
       mine();
       if
       :: seen == NONE && !seen_closed ->
          newest = NONE;
          closed = false;
#else
     atomic {
       mine();
       if
       :: newest == NONE && !closed ->
#endif
          busy = false;
          owner = NOBODY;
          forget();
          goto issued
       :: else -> forget(); counted = 0; done[id] = true; goto next
       fi
     }
  :: atomic { mine(); counted = 0; goto serve_this }
  fi;

push:
#ifndef COUNT_AFTER_PUSH
  atomic { alive(); waiting++ };
#endif
  atomic { look() };
push_again:
  if
#ifdef PUSH_IGNORES_CLOSED
  :: false ->
#elif defined(LAST_IS_REFUSED)
  :: seen_closed ->
#else
  :: seen_closed && id != CLOSER ->
#endif
     atomic { alive(); forget(); waiting--; goto finished }
  :: else
  fi;
  if
#ifdef NO_TAKE_OVER
  :: false ->
#else
  :: !seen_busy ->
#endif
     atomic {
       alive();
       if
       :: same() ->
          busy = true;
          own();
          get_in(id);
#ifndef NO_LINK_RESET
          older[id] = NONE;
#endif
          first = id;
          counted = 0;
          forget();
          goto next
       :: else -> look(); goto push_again
       fi
     }
  :: else ->
     atomic {
       alive();
       older[id] = seen;
       if
#ifdef PUSH_BY_STORE
       :: true ->
#else
       :: same() ->
#endif
          newest = id;
          get_in(id);
          forget()
       :: else -> look(); goto push_again
       fi
     }
  fi;
#ifdef COUNT_AFTER_PUSH
  waiting++;
#endif
  goto left;

close:
  cur = id;
  atomic {
    alive();
    closed = true;
    if
    :: busy -> goto push
    :: else -> busy = true; own(); get_in(id); counted = 0; goto serve_this
    fi
  };

/* next() and the loop around it, until the section is left, passed on or closed */
next:
#ifdef LINK_AFTER_BODY
  atomic {
    if
    :: taken -> first = older[cur]; taken = false
    :: else
    fi
  };
#endif
#ifdef RESUME_BEFORE_IDLE
  deliver();
#endif
  if
  :: first == NONE ->
#ifndef RESET_AFTER_IDLE
     atomic { mine(); account() };
#endif
     atomic { mine(); look() };
leave:
     if
     :: seen == NONE ->
        atomic {
          mine();
          if
#ifdef IDLE_BY_STORE
          :: true ->
             newest = NONE;
#else
          :: same() ->
#endif
#ifdef IDLE_DROPS_CLOSED
             closed = false;
#endif
             busy = false;
             owner = NOBODY;
             forget();
             goto idle
          :: else -> look(); goto leave
          fi
        }
     :: else
     fi;
     atomic {
       mine();
#ifndef TAKE_BY_STORE
       seen = newest;
#endif
       newest = NONE;
#ifdef TAKE_DROPS_CLOSED
       closed = false;
#endif
#ifdef NO_TURNING
       first = seen;
#else
       do
       :: seen != NONE -> n = older[seen]; older[seen] = first; first = seen; seen = n
       :: else -> break
       od;
       n = 0;
#endif
       forget()
     }
  :: else
  fi;
  atomic {
    mine();
    cur = first;
#ifdef LINK_AFTER_BODY
    taken = true;
#else
    first = older[cur];
#endif
    counted++
  };
  if
  :: true
  :: atomic { mine(); account() }; deliver()
  :: atomic {
       mine();
       account();
#ifndef LINK_AFTER_BODY
       older[cur] = first;
#endif
       first = cur;
       counted--;
       owner = POSTED;
       goto left
     }
  fi;
serve_this:
  atomic {
    mine();
    assert(place[cur] == turn);
    turn++;
    if
    :: C == 1 && cur == CLOSER ->
       assert(turn == in_line);
       close_done = true; /* and it is never left */
       goto left
    :: else -> done[cur] = true; older[cur] = NONE /* a batch links what is in it */
    fi
  };
  goto next;

idle:
#ifdef RESET_AFTER_IDLE
  atomic { account() };
#endif
left:
  deliver();
  atomic {
    cur = 0;
    if
    :: id == JOB -> goto end_wait
    :: id < P -> goto wait
    :: else -> goto finished
    fi
  };
wait:
  (answered[id]);
issued:
  if
  :: i < K -> goto issue
  :: else
  fi;
finished:
  deliver();
  ended++
}

proctype destroyer() {
  atomic {
    ended == P + C && (C == 0 || close_done);
    assert(turn == in_line);
    assert(C == 1 || (newest == NONE && !closed && !busy && owner == NOBODY && waiting == 0));
    gone = true
  }
}

init {
  byte p;
  atomic {
    for (p : 0 .. P + C) {
      run party(p)
    }
    p = 0;
    run destroyer()
  }
}
