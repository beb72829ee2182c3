/* ticket_ring - the ticket word, the cells, and the parked mark in a cell.
 *
 * Models     include/turnstile/detail/ticket_word.hpp, ticket_ring.hpp, lib/ring/*.cpp, and of
 *            lib/strand/section_core.cpp the loop that serves: batches, hand-back, pass-on
 * Abstracts  sequentially consistent: memory orders are the business of test/schedule. The word is
 *            a pair that changes in one step. What only the owner touches is one step with the
 *            access beside it, and `owner` asserts that there is one owner. The stash is a set of
 *            tickets: which list order put() finds is tested in test/ring. A compare-and-swap fails
 *            only for a reason. The budget is a choice after each body: go on, hand back, pass on.
 * Sizes      P producers with K requests each, issued without waiting; N cells
 * Checks     one owner at a time; tickets served in order, each once; everything handed back (else
 *            the destroyer waits for ever); idle at the end; nobody touches a section that is gone,
 *            which it is as soon as the last result is handed back
 *
 * Ablations  each must fail
 *   RESUME_BEFORE_SETTLE   the last result is handed back while the word is still to be told
 *   RESET_AFTER_IDLE       a private field written after the word says idle: it is the next owner's
 *   ACCOUNT_AFTER_PARK     the same after the mark, when the word is told what is done
 *   IDLE_BY_STORE          idle decided by a load and a store: an arrival between is lost
 *   PARK_BY_STORE          the mark stored without comparing: a request published between is lost
 *   TAKE_OVER_BY_STORE     the mark removed without comparing: two take over
 *   NO_TAKE_OVER           a publisher pushes on top of the mark: nobody owns the section
 *   ONLY_AWAITED_TAKES     the same, but for the request that is waited for
 *   MARK_APART             the mark in a word of its own, with a second look at the cell: the look
 *                          comes when the section may be gone
 *   MARK_APART NO_RECHECK  the same without that look: a request published between is lost
 *   PUSH_BY_STORE          a request stored into its cell: the chain under it is lost
 *   LINK_AFTER_PUSH        linked after it can be found: the chain behind it is lost
 *   COLLECT_BY_STORE       a cell emptied by a load and a store: a push between is lost
 *   COLLECT_NEWEST         only the head of a chain is taken
 *   NO_HEAD_IN_LEAVE       the uncontended end does not say whose turn is next
 *   FIRST_FOUND            the oldest request found is served, the one missing or not
 *   KNOWN_NOT_RENEWED      settle keeps the old number of known requests
 *   TAKE_OWN_BEHIND_MORE   taken in place by one that found several: the mark is for another one
 *   TAKE_OWN_OF_ONE_CELL   the same where all share a cell
 *   TAKE_OWN_BY_STORE      the mark removed without comparing: two take it
 */

#ifndef P
#define P 3
#endif
#ifndef K
#define K 1
#endif
#ifndef N
#define N 2
#endif
#define R (P * K)
#define ALL ((1 << R) - 1)

#define NOTHING 0
#define PARKED 1
#define CHAIN(r) ((r) + 2)
#define BIT(n) (1 << (n))

#define NOBODY 255
#define POSTED 254

/* the word and the cells */
byte ticket, pending;
byte cell[N];
#ifdef MARK_APART
byte parked;
#endif

/* the requests; a ticket's request is ghost */
byte older[R];
byte request_of[R];

/* private to the owner */
byte head, unaccounted, known;
byte stash[N];

/* ghost */
byte owner = NOBODY;
byte turn;
byte back;
bool gone;

#define alive() assert(!gone)
#define mine() assert(!gone && owner == _pid)

inline own() {
  assert(owner == NOBODY);
  owner = _pid
}

inline body(t) {
  mine();
  assert(turn == t);
  turn++;
  done = done | BIT(request_of[t])
}

inline finish() {
  head++;
  unaccounted++
}

inline account() {
  if
  :: unaccounted != 0 ->
     alive();
     pending = pending - unaccounted;
     known = pending;
     unaccounted = 0
  :: else
  fi
}

inline collect() {
  mine();
#ifndef COLLECT_BY_STORE
  seen = cell[head % N];
#endif
  cell[head % N] = NOTHING;
  do
  :: seen >= CHAIN(0) ->
     for (t : 0 .. R - 1) {
       if
       :: request_of[t] == seen - CHAIN(0) && t < ticket ->
          stash[t % N] = stash[t % N] | BIT(t);
          break
       :: else
       fi
     }
#ifdef COLLECT_NEWEST
     seen = NOTHING
#else
     seen = older[seen - CHAIN(0)]
#endif
  :: else -> break
  od;
  seen = 0;
  t = 0
}

/* A thread that issues requests; the last one is the executor, which runs the section's job. */
proctype party(byte id) {
  byte i, r, p, was, seen, t, done;
  if
  :: id < P
  :: else ->
end_wait:
     atomic { owner == POSTED -> owner = _pid; goto next }
  fi;
issue:
  atomic {
    alive();
    r = id * K + i;
    i++;
    p = ticket;
    request_of[p] = r;
    was = pending;
    ticket++;
    pending++;
    if
    :: was == 0 -> own()
    :: else
    fi
  };
  if
  :: was != 0
  :: was == 0 -> /* the uncontended path */
alone:
     atomic { body(p) };
     atomic {
       mine();
       was = pending;
       pending--;
       if
       :: was == 1 -> owner = NOBODY; goto idle
       :: else ->
#ifndef NO_HEAD_IN_LEAVE
          head = p + 1;
#endif
          unaccounted = 0;
          known = was - 1;
          goto next
       fi
     }
  :: was == 0 -> /* serve_first */
first:
     atomic { mine(); head = p; unaccounted = 0; known = 1; goto serve_this }
  fi;
  /* in place, for as long as it likes */
  if
  :: true
#ifdef TAKE_OWN_BY_STORE
  :: was == 1 && N > 1 && cell[p % N] == PARKED ->
     atomic {
       alive();
       true ->
#else
# ifdef TAKE_OWN_BEHIND_MORE
  :: atomic {
       N > 1 && cell[p % N] == PARKED ->
# elif defined(TAKE_OWN_OF_ONE_CELL)
  :: atomic {
       was == 1 && cell[p % N] == PARKED ->
# else
  :: atomic {
       was == 1 && N > 1 && cell[p % N] == PARKED ->
# endif
#endif
       alive();
       cell[p % N] = NOTHING;
       own();
       assert(head == p && unaccounted == 0 && known != 0)
     };
     if
     :: goto alone
     :: goto first
     :: true /* parks again */
     fi;
again:
     atomic {
       mine();
       if
       :: cell[p % N] == NOTHING ->
          cell[p % N] = PARKED;
          owner = NOBODY;
          goto in_line
       :: else -> seen = cell[p % N]
       fi
     };
     atomic { collect(); goto again }
  fi;
in_line:
  atomic { alive(); was = 0; seen = cell[p % N] };
publish:
  if
#ifdef NO_TAKE_OVER
  :: false
#elif defined(ONLY_AWAITED_TAKES)
  :: seen == PARKED && p == head ->
#else
  :: seen == PARKED ->
#endif
     atomic {
       alive();
       if
#ifdef TAKE_OVER_BY_STORE
       :: true ->
#else
       :: cell[p % N] == PARKED ->
#endif
          cell[p % N] = NOTHING;
          own();
          stash[p % N] = stash[p % N] | BIT(p);
          seen = 0;
          goto next
       :: else -> seen = cell[p % N]; goto publish
       fi
     }
  :: else ->
     atomic {
       alive();
       if
#ifdef PUSH_BY_STORE
       :: true ->
#else
       :: cell[p % N] == seen ->
#endif
          cell[p % N] = CHAIN(r);
#ifndef LINK_AFTER_PUSH
          older[r] = seen;
          seen = 0
#endif
       :: else -> seen = cell[p % N]; goto publish
       fi
     }
  fi;
#ifdef LINK_AFTER_PUSH
  atomic { older[r] = seen; seen = 0 };
#endif
#ifdef MARK_APART
  atomic {
    alive();
    if
    :: parked == p + 1 -> parked = 0; own(); goto next
    :: else
    fi
  };
#endif
  goto left;

/* next() and the loop around it, until the section is left, parked or passed on */
next:
#ifdef RESUME_BEFORE_SETTLE
  atomic { back = back | done; done = 0 };
#endif
  if
  :: unaccounted == known ->
#ifdef IDLE_BY_STORE
     atomic { mine(); was = pending };
     atomic {
       mine();
       pending = was - unaccounted;
#else
     atomic {
       mine();
       pending = pending - unaccounted;
#endif
#ifndef RESET_AFTER_IDLE
       unaccounted = 0;
#endif
       was = 0;
       if
       :: pending == 0 -> owner = NOBODY; goto idle
       :: else ->
          unaccounted = 0;
#ifndef KNOWN_NOT_RENEWED
          known = pending
#endif
       fi
     }
  :: else
  fi;
look:
  atomic {
    mine();
#ifdef FIRST_FOUND
    for (t : 0 .. R - 1) {
      if
      :: (stash[t % N] & BIT(t)) != 0 -> head = t; break
      :: else
      fi
    }
    t = 0;
#endif
    if
    :: (stash[head % N] & BIT(head)) != 0 ->
       stash[head % N] = stash[head % N] & ~BIT(head);
       goto found
    :: else -> seen = cell[head % N]
    fi
  };
  if
  :: seen != NOTHING -> atomic { collect(); goto look }
  :: else
  fi;
#ifndef ACCOUNT_AFTER_PARK
  atomic { mine(); account(); assert(pending != 0) };
#endif
  atomic {
    mine();
#ifdef MARK_APART
    parked = head + 1;
    t = head;
    owner = NOBODY
  };
# ifndef NO_RECHECK
  atomic { alive(); seen = cell[t % N] };
  if
  :: seen != NOTHING ->
     seen = 0;
     atomic {
       alive();
       if
       :: parked == t + 1 -> parked = 0; own(); t = 0; goto look
       :: else
       fi
     }
  :: else
  fi;
# endif
  atomic { t = 0; goto left };
#else
    if
# ifdef PARK_BY_STORE
    :: true ->
# else
    :: cell[head % N] == NOTHING ->
# endif
       cell[head % N] = PARKED;
       owner = NOBODY;
       goto stopped
    :: else -> goto look
    fi
  };
#endif
found:
  if
  :: true
  :: done != 0 -> atomic { mine(); account() }; atomic { back = back | done; done = 0 }
  :: done != 0 ->
     atomic { mine(); account() };
     atomic {
       mine();
       stash[head % N] = stash[head % N] | BIT(head);
       owner = POSTED;
       goto left
     }
  fi;
serve_this:
  atomic { body(head); finish() };
  goto next;
stopped:
#ifdef ACCOUNT_AFTER_PARK
  atomic { account() };
#endif
  goto left;
idle:
#ifdef RESET_AFTER_IDLE
  unaccounted = 0;
#endif
left:
  atomic { back = back | done; done = 0; was = 0 };
  if
  :: id == P -> goto end_wait
  :: else
  fi;
  if
  :: i < K -> goto issue
  :: else
  fi
}

/* Destroys the section when it has the last result. */
proctype destroyer() {
  atomic {
    back == ALL;
    assert(pending == 0 && owner == NOBODY && turn == R);
    gone = true
  }
}

init {
  byte p;
  atomic {
    for (p : 0 .. P) {
      run party(p)
    }
    p = 0;
    run destroyer()
  }
}
