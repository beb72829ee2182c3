/* close - closing takes the last place in line, and the section may go when it is done.
 *
 * Models     include/turnstile/detail/section_core.hpp (closers), close_awaiter.hpp, closing in
 *            ticket_word.hpp, and in lib/strand section_core.cpp (serve, pass-on) and closing.cpp
 * Abstracts  sequentially consistent: memory orders are the business of test/schedule. Each ticket
 *            has a cell of its own, with the parked mark in it: cells that are shared are in
 *            ticket_ring. `known` is left out: the word is told after each body, or after several.
 * Sizes      P coroutines with one request each, C that close
 * Checks     when close is done everything accepted has ended, and what the closing thread served
 *            is handed back; nothing is accepted behind the closing request; everybody who closes
 *            is resumed, once; nobody touches the section after it is gone, which it is as soon as
 *            all who closed are resumed and every request has run or was refused
 * Not so     what another thread served may still be on its way back when close is done: who leaves
 *            a parked section or passes it on delivers after that. Run with ALL_HANDED_BACK to see.
 *
 * Ablations  each must fail
 *   NO_CLOSED_BIT        requests get in behind the closing one and are never served
 *   CLOSED_BIT_LATE      the bit is set after the place was taken: the same, between the two
 *   CLOSE_AT_ONCE        closing does not wait for its place in line: bodies still run
 *   DELIVER_LATE         close is done before what was served is handed back
 *   ADD_AFTER_PUBLISH    the first closer adds itself when closing may be done already
 *   ADD_BY_STORE         two add themselves at once: one is lost
 *   FINISH_BY_STORE      the list taken by a load and a store: who came between is lost
 *   NO_CLOSED_LIST       the list is empty, not closed: who comes later is never resumed
 *   NEXT_AFTER_DONE      a closer's link read after it was resumed: its frame is gone
 *   TOUCH_AFTER_ADD      a look at the section by a closer that is not the first
 *   GO_ON_AFTER_CLOSE    a look for a next request after the closing one
 */

#ifndef P
#define P 2
#endif
#ifndef C
#define C 2
#endif

#define T (P + C)
#define JOB T
#define NOBODY 255
#define POSTED 254
#define NO_ONE 254
#define CLOSED_LIST 255
#define BIT(n) (1 << (n))

mtype = { nothing, parked, here };

/* the word, the cells and the list of those who close */
byte ticket, pending;
bool closed;
mtype cell[T + 1] = nothing;
byte closers = NO_ONE;
byte next_closer[T];

/* private to the owner */
byte head, unaccounted;

/* ghost */
byte owner = NOBODY;
byte request_of[T + 1];
byte closing_ticket = NOBODY;
byte turn;
byte answered, back; /* ran or refused; got its result */
byte resumed;
bool gone;

#define alive() assert(!gone)
#define mine() assert(!gone && owner == _pid)
#define closes(id) ((id) >= P)

inline own() {
  assert(owner == NOBODY);
  owner = _pid
}

inline account() {
  mine();
  pending = pending - unaccounted;
  unaccounted = 0
}

inline resume(c) {
  assert((resumed & BIT(c)) == 0);
  resumed = resumed | BIT(c)
}

inline deliver() {
  atomic { back = back | done; done = 0 }
}

proctype party(byte id) {
  byte t, c, done;
  if
  :: id < P
  :: id == JOB ->
end_wait:
     atomic { owner == POSTED -> owner = _pid; goto next }
  :: closes(id) && id != JOB -> goto close
  fi;

  atomic { /* arrive */
    alive();
    t = ticket;
    request_of[t] = id;
    ticket++;
    pending++;
    if
    :: closed -> goto refused
    :: !closed && pending == 1 -> own(); head = t; goto serve_this
    :: else -> goto publish
    fi
  };
refused:
  atomic {
    alive();
    pending--;
    answered = answered | BIT(id);
    back = back | BIT(id);
    goto finished
  };

close:
  atomic {
    alive();
    if
    :: closed -> goto add
    :: else
    fi;
    t = ticket;
    request_of[t] = id;
    closing_ticket = t;
    ticket++;
    pending++;
#if !defined(NO_CLOSED_BIT) && !defined(CLOSED_BIT_LATE)
    closed = true;
#endif
    if
    :: pending == 1 -> own(); head = t
    :: else
    fi
  };
#ifdef CLOSED_BIT_LATE
  atomic { alive(); closed = true };
#endif
#ifdef CLOSE_AT_ONCE
  c = closers;
  goto finish_close;
#endif
#ifdef ADD_AFTER_PUBLISH
  if
  :: owner != _pid -> goto publish
  :: else
  fi;
#endif
add:
  atomic { alive(); c = closers };
add_again:
  atomic {
    if
    :: c == CLOSED_LIST ->
       if
       :: closing_ticket != NOBODY && request_of[closing_ticket] == id -> goto finished
       :: else -> resume(id); goto finished
       fi
    :: else
    fi
  };
  atomic {
    alive();
    if
#ifdef ADD_BY_STORE
    :: true ->
#else
    :: closers == c ->
#endif
       next_closer[id] = c;
       closers = id;
       c = 0
    :: else -> c = closers; goto add_again
    fi
  };
  atomic {
    if
    :: request_of[closing_ticket] != id ->
#ifdef TOUCH_AFTER_ADD
       goto touch;
#endif
       goto finished
    :: owner == _pid -> goto serve_this
    :: else
    fi
  };
#ifdef ADD_AFTER_PUBLISH
  goto finished;
#endif

publish:
  atomic {
    alive();
    if
    :: cell[t] == parked -> cell[t] = nothing; own(); goto found
    :: else -> cell[t] = here
    fi
  };
#ifdef ADD_AFTER_PUBLISH
  if
  :: closes(id) -> goto add
  :: else
  fi;
#endif
  goto finished;

/* next() and the loop around it */
next:
  if
  :: true
  :: unaccounted != 0 ->
     atomic {
       account();
       if
       :: pending == 0 -> owner = NOBODY; goto left
       :: else
       fi
     }
  fi;
  atomic {
    mine();
    if
    :: unaccounted == pending -> goto next /* the owner looks before it goes on */
    :: cell[head] == here -> cell[head] = nothing; goto found
    :: else
    fi
  };
  atomic {
    mine();
    if
    :: cell[head] == nothing -> cell[head] = parked; owner = NOBODY; goto left
    :: else -> cell[head] = nothing
    fi
  };
found:
  if
  :: true
  :: done != 0 -> deliver()
  :: done != 0 -> atomic { mine(); cell[head] = here; owner = POSTED; goto left }
  fi;
serve_this:
  atomic {
    mine();
    assert(turn == head);
    turn++;
    t = head;
    if
    :: closes(request_of[t]) -> assert(t == closing_ticket)
    :: else ->
       answered = answered | BIT(request_of[t]);
       done = done | BIT(request_of[t]);
       head++;
       unaccounted++;
       goto next
    fi
  };

/* finish_closing */
#ifndef DELIVER_LATE
  deliver();
#endif
#ifdef FINISH_BY_STORE
  atomic { alive(); c = closers };
#endif
finish_close:
  atomic {
    alive();
    assert(turn == closing_ticket + 1);
    assert(done == 0);
#ifdef ALL_HANDED_BACK
    assert((back & answered) == answered);
#endif
#ifndef FINISH_BY_STORE
    c = closers;
#endif
#ifdef NO_CLOSED_LIST
    closers = NO_ONE
#else
    closers = CLOSED_LIST
#endif
  };
  do
  :: c != NO_ONE ->
#ifdef NEXT_AFTER_DONE
     atomic { resume(c) };
     atomic { alive(); c = next_closer[c] }
#else
     atomic { resume(c); c = next_closer[c] }
#endif
  :: else -> break
  od;
#ifdef GO_ON_AFTER_CLOSE
  goto next;
#endif
left:
  deliver();
  if
  :: id == JOB -> goto end_wait
  :: else -> goto finished
  fi;
#ifdef TOUCH_AFTER_ADD
touch:
  alive();
#endif
finished:
  skip
}

proctype destroyer() {
  atomic {
    resumed == BIT(T) - BIT(P) && answered == BIT(P) - 1;
    gone = true
  }
  (back == BIT(P) - 1)
}

init {
  byte p;
  atomic {
    for (p : 0 .. T) {
      run party(p)
    }
    p = 0;
    run destroyer()
  }
}
