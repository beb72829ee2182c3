/* withdrawal - requests that are taken out of the line, or from those set aside, before their turn.
 *
 * Models     include/turnstile/detail/stand_in.hpp, lib/strand/stand_in.cpp: a node apart from the
 *            awaiting frame stands in line for a request that may be withdrawn. One word of its says
 *            who has it pinned and what became of it; who has a pin may look at the frame, and
 *            nobody withdraws what is pinned: it is asked for, and done with the last pin.
 * Abstracts  sequentially consistent: memory orders are the business of test/schedule. The line is
 *            a queue of places, each published later; idle, parked and taking over are one step
 *            each: how, is in the models of the rings. Resuming posts the awaiter, which goes on by
 *            itself.
 *            Who deregisters from its sources waits for a callback that runs and is done with the
 *            node in one step. The body ends in the step that takes the request.
 * Sizes      a holder, which waits without a node if it has to wait at all; W requests that may be
 *            withdrawn, each by a canceller that comes at any time or never
 *              WHEN=mask  these wait for an item: each other body makes one, theirs take one
 *              BUDGET     an owner passes the section on at any time, else only who may not serve
 *              BOUND      bodies run in jobs only
 *              TWICE      request 1 has two sources
 *            Requests arrive in the order of their numbers, which are all the same but for WHEN
 *              ANY_TIME   the holder may come at any time; else it has the section at first
 * Checks     one owner at a time; each request runs or is withdrawn, and its awaiter is resumed
 *            once; what was asked for in time does not run; no node is touched after it was freed,
 *            and all are freed; no frame is touched after its awaiter was resumed; nobody touches
 *            the section after the last awaiter has gone on, and it is idle by then; nothing waits
 *            in line for ever; nobody who is set aside waits while there is an item
 *
 * Ablations  each must fail
 *   TAKE_BY_STORE           the owner looks, then stores: what was asked for between runs
 *   TAKE_IGNORES_ASKED      it runs although it was asked for
 *   WITHDRAW_BY_STORE       the canceller looks, then stores: it withdraws what runs
 *   WITHDRAW_PINNED         nor does it wait for the pins
 *   WITHDRAW_FREES_SECTION  withdrawing lets the next one in beside the owner
 *   UNPIN_IGNORES_ASKED     the last pin is given up, and nobody withdraws
 *   TOMBSTONE_ENDS_LINE     the owner takes a withdrawn request for the end of the line
 *   TOMBSTONE_NOT_DONE      the owner does not tell a withdrawn node that it is out of the line
 *   ASKED_NOT_DONE          nor one that it did not run
 *   ONE_REFERENCE           the awaiter of a withdrawn request frees the node: it is still in line
 *   NO_DEREGISTRATION       the awaiter is done with the node while a canceller looks at it
 *   PUSHER_WITHOUT_PIN      the awaiter goes on while its node is still being pushed
 *   PUSHER_UNPINS_FIRST     who takes over gives its pin up before it has passed the section on
 *   HAND_BACK_BEFORE_PIN    results go back because another request is there, which is withdrawn:
 *                           the owner has still to leave the section
 *   ASKED_UNPINNED_AT_ONCE  so does one that is not run, before the owner knows of another one
 *   ASIDE_UNPINNED_AT_ONCE  and one that is set aside
 *   LOOK_AT_FRAME_FIRST     the owner looks at the frame before it has pinned the request
 *   NO_LOOK_AFTER_BODY      nobody looks at those set aside
 *   LOOK_ENDS_WITH_ASKED    the one that could go on is not run, and those behind it are forgotten
 *   FINISHED_TWICE          who runs in the place of another one finishes it as well
 *   POSTED_STAYS_OWNED      withdrawing what carries the section leaves it owned
 *   POSTED_WITHOUT_NEXT     or makes it idle without a look at the line
 *   POSTED_RESUMES_FIRST    or resumes the awaiter before the section is left
 *   JOB_RUNS_WITHDRAWN      the job takes the section although its request is withdrawn
 *   JOB_NOT_DONE            the job of a withdrawn request does not tell the node that it ran
 *   END_KEEPS_TOMBSTONES    the section ends and leaves withdrawn nodes among those set aside
 */

#ifndef W
#define W 2
#endif
#ifndef WHEN
#define WHEN 0
#endif

#define N (W + 1) /* request 0 is the holder */
#define NOBODY 255
#define bit(r) (1 << (r))
#define in_set(r, set) (((set) >> (r)) & 1)
#define is_plain(r) ((r) == 0)
#define waits_for_item(r) in_set(r, WHEN)

/* of the word */
#define ASKED 1
#define TAKEN 2
#define WITHDRAWN 4
#define POSTED 8
#define AWAITER_DONE 16
#define SECTION_DONE 32

#ifdef ASKED_NOT_DONE
#define DONE_OF_UNRUN 0
#else
#define DONE_OF_UNRUN SECTION_DONE
#endif

mtype = { issue, work, cancel };

/* the section */
byte places;       /* the word: how many have arrived and did not end, as far as it was told */
bool parked;       /* left, though there are places: at a gap */
chan line = [N] of { byte };
byte published;    /* set */
byte ended_places; /* the owner's: not told yet */
byte items;
chan aside = [N] of { byte };

/* the nodes */
byte word[N];
byte pins[N];
byte made, freed; /* sets */

/* executors, and stop callbacks */
byte jobs, registered; /* sets */
byte in_callback[N];

/* ghost */
byte owner = NOBODY;
byte ran, resumed, over; /* sets */
byte set_aside, arrived;
byte ended;
bool gone, late;
byte reluctant; /* set: withdrawn late, or not at all */

#define alive() assert(!gone)
#define mine() assert(!gone && owner == _pid)
#define touch(r) assert(in_set(r, made) && !in_set(r, freed))
#define frame(r) assert(!in_set(r, resumed))

inline own() {
  assert(owner == NOBODY && !gone);
  owner = _pid
}

/* Nobody who could go on is left behind. */
inline disown() {
  for (n : 1 .. W) {
    assert(items == 0 || !in_set(n, set_aside) || (word[n] & (ASKED | WITHDRAWN)))
  }
  n = 0;
  owner = NOBODY
}

/* Ends each step on the word. */
inline settle(r) {
  if
  :: (word[r] & AWAITER_DONE) && (word[r] & SECTION_DONE) && pins[r] == 0 ->
     assert(!in_set(r, freed));
     freed = freed | bit(r)
  :: else
  fi
}

inline resume(r) {
  frame(r);
  resumed = resumed | bit(r);
  if
  :: !in_set(r, made) -> over = over | bit(r); ended++
  :: else
  fi
}

inline make(r) {
  made = made | bit(r);
#ifndef PUSHER_WITHOUT_PIN
  pins[r] = 1;
  pusher = true
#endif
}

#define sign_up(r) registered = registered | bit(r)

/* Gives a pin up. Withdrawn by that: the result is among this thread's. */
inline unpin(r, more) {
  touch(r);
  assert(pins[r] > 0);
  pins[r]--;
  word[r] = word[r] | more;
#ifndef UNPIN_IGNORES_ASKED
  if
  :: pins[r] == 0 && (word[r] & ASKED) && !(word[r] & (TAKEN | WITHDRAWN)) ->
     word[r] = word[r] | WITHDRAWN;
     results = results | bit(r)
  :: else
  fi;
#endif
  settle(r)
}

/* Pins given up may add to the results; each is a step, for others go on between. */
inline hand_back() {
  do
  :: atomic {
       (unrun | kept) != 0 ->
       n = 0;
       do
       :: in_set(n, unrun | kept) -> break
       :: else -> n++
       od;
       assert(!(word[n] & POSTED));
       if
       :: in_set(n, unrun) -> unpin(n, DONE_OF_UNRUN); unrun = unrun & ~bit(n)
       :: else -> unpin(n, 0); kept = kept & ~bit(n)
       fi;
       n = 0
     }
  :: atomic {
       (unrun | kept) == 0 && results != 0 ->
       n = 0;
       do
       :: in_set(n, results) -> break
       :: else -> n++
       od;
       resume(n);
       results = results & ~bit(n);
       n = 0
     }
  :: (unrun | kept | results) == 0 -> break
  od
}

inline run_body(r) {
  mine();
  frame(r);
  assert(!in_set(r, ran));
  assert(is_plain(r) || !(word[r] & (ASKED | WITHDRAWN)));
  ran = ran | bit(r);
  results = results | bit(r);
  if
  :: waits_for_item(r) -> assert(items > 0); items--
  :: else -> items++
  fi
}

/* The owner of a posted request that is withdrawn is who withdrew it. */
inline take_over_posted() {
  own();
  ended_places++;
  passes = true
}

/* Issues a request, works for an executor, or withdraws. */
proctype thread(byte id; mtype role) {
  byte r, n, to_look_at;
  byte results; /* set: run or withdrawn, to be resumed */
  byte unrun;   /* set: pinned, asked for, and out of the line */
  byte kept;    /* set: pinned, and set aside */
  bool pusher;  /* has the pusher's pin of its request */
  bool passes;  /* never runs bodies */
  byte s;

  if
  :: role == issue
  :: role == work -> goto executor
  :: role == cancel -> goto callback
  fi;

#ifndef ANY_TIME
  if
  :: is_plain(id) -> atomic { run_body(0); goto look }
  :: else
  fi;
#endif
  atomic { /* arrive; the node is made and registered */
    id < 2 || in_set(id - 1, arrived);
    arrived = arrived | bit(id);
    alive();
    if
    :: places == 0 -> places = 1; own(); r = id
    :: else -> places++; line!id
    fi;
    if
    :: owner != _pid ->
       if
       :: !is_plain(id) -> make(id); sign_up(id)
       :: else
       fi;
       goto push
    :: else
    fi;
#ifdef BOUND
    passes = true;
    if
    :: !is_plain(r) -> make(r); pins[r]++; sign_up(r)
    :: else
    fi;
    goto pass_on
#else
    if
    :: waits_for_item(r) && items == 0 -> make(r); pusher = false; kept = bit(r); sign_up(r)
    :: else -> run_body(r); r = 0; goto look
    fi
#endif
  };
#ifndef BOUND
  goto put_aside;
#endif

push:
  atomic {
    alive();
    assert(is_plain(id) || !in_set(id, freed));
    published = published | bit(id);
    if
    :: parked -> line?<r>; if :: true :: r != id -> goto not_taken_over fi
    :: else -> goto not_taken_over
    fi;
    r = 0;
    parked = false;
    own();
    passes = !is_plain(id)
  };
#ifdef PUSHER_UNPINS_FIRST
  if
  :: pusher -> atomic { unpin(id, 0); pusher = false }
  :: else
  fi;
#endif
  goto next;
not_taken_over:
  r = 0;
  goto left;

look: /* a body has ended, its place has not */
  to_look_at = len(aside);
look_on:
#ifdef NO_LOOK_AFTER_BODY
  to_look_at = 0;
#endif
  if
  :: to_look_at == 0 -> goto finish
  :: else
  fi;
  atomic {
    mine();
    aside?r;
    to_look_at--;
    set_aside = set_aside & ~bit(r);
    touch(r);
    if
    :: word[r] & WITHDRAWN ->
       word[r] = word[r] | SECTION_DONE;
       settle(r);
       r = 0;
       goto look_on
    :: else ->
       if
       :: in_set(r, kept) -> kept = kept & ~bit(r) /* pinned by this thread before */
       :: else -> pins[r]++
       fi
    fi;
    frame(r);
    if
    :: items == 0 -> aside!r; set_aside = set_aside | bit(r); kept = kept | bit(r); r = 0; goto look_on
    :: else
    fi
  };
  atomic {
    mine();
    touch(r);
    frame(r);
    if
    :: word[r] & ASKED ->
       unrun = unrun | bit(r);
       r = 0;
#ifdef LOOK_ENDS_WITH_ASKED
       to_look_at = 0;
#endif
       goto look_on
    :: else
    fi;
    to_look_at = 0;
#ifdef FINISHED_TWICE
    ended_places++;
#endif
    pins[r]--;
    word[r] = word[r] | TAKEN | SECTION_DONE;
    settle(r);
    run_body(r);
    r = 0;
    goto look
  };

put_aside: /* r is pinned and kept */
  atomic { mine(); aside!r; set_aside = set_aside | bit(r); r = 0 };
#ifdef ASIDE_UNPINNED_AT_ONCE
  hand_back();
#endif
finish:
  ended_places++; /* the owner's */
next:
  atomic {
    mine();
    if
    :: empty(line)
    :: nempty(line) -> line?<r>; if :: in_set(r, published) -> line?r; goto found :: else fi
    fi;
    r = 0;
    places = places - ended_places;
    ended_places = 0;
    parked = (places != 0);
    disown()
  };
  goto left;
found:
#ifdef LOOK_AT_FRAME_FIRST
  atomic { mine(); frame(r) };
#endif
#ifdef HAND_BACK_BEFORE_PIN
  hand_back();
#endif
  if
  :: is_plain(r) -> goto pinned
  :: else
  fi;
  atomic {
    mine();
    touch(r);
    if
    :: word[r] & WITHDRAWN ->
#ifndef TOMBSTONE_NOT_DONE
       word[r] = word[r] | SECTION_DONE;
#endif
       settle(r);
       r = 0;
#ifdef TOMBSTONE_ENDS_LINE
       places = 0;
       ended_places = 0;
       disown();
       goto left;
#endif
       goto finish
    :: else -> pins[r]++
    fi
  };
pinned:
  if
  :: true
  :: (unrun | kept | results) != 0 -> hand_back()
  fi;
#ifdef BOUND
  goto pass_on;
#endif
  if
  :: passes -> goto pass_on
  :: !passes -> goto take
#ifdef BUDGET
  :: !passes -> goto pass_on /* it is spent */
#endif
  fi;

pass_on:
  if
  :: is_plain(r) -> atomic { mine(); jobs = jobs | bit(r); r = 0; disown() }; goto left
  :: else
  fi;
  atomic {
    mine();
    touch(r);
    if
    :: word[r] & ASKED -> unrun = unrun | bit(r); r = 0; goto was_asked
    :: else
    fi;
    disown();
    unpin(r, POSTED);
    jobs = jobs | bit(r);
    r = 0
  };
  goto left;
was_asked:
#ifdef ASKED_UNPINNED_AT_ONCE
  hand_back();
#endif
  goto finish;

executor:
end_executor:
  in_set(id, jobs);
  if
  :: is_plain(id) -> atomic { own(); r = id }; goto take
  :: else
  fi;
  atomic {
    touch(id);
    if
    :: word[id] & WITHDRAWN ->
#ifndef JOB_NOT_DONE
       word[id] = word[id] | SECTION_DONE;
#endif
       settle(id);
#ifdef JOB_RUNS_WITHDRAWN
       own();
       r = id;
       goto body;
#endif
       goto finished
    :: else -> word[id] = word[id] & ~POSTED; pins[id]++; own(); r = id
    fi
  };

take:
#ifdef TAKE_BY_STORE
  atomic { mine(); touch(r); s = word[r] };
#endif
  atomic {
    mine();
    frame(r);
    if
    :: is_plain(r) -> goto body
    :: else
    fi;
    touch(r);
    if
    :: waits_for_item(r) && items == 0 -> kept = kept | bit(r); s = 0; goto put_aside
    :: else
    fi;
#ifndef TAKE_BY_STORE
    s = word[r];
#endif
#ifdef TAKE_IGNORES_ASKED
    s = 0;
#endif
    if
    :: s & ASKED -> s = 0; unrun = unrun | bit(r); r = 0; goto was_asked
    :: else
    fi;
    s = 0;
    pins[r]--;
    word[r] = word[r] | TAKEN | SECTION_DONE;
    settle(r);
    run_body(r);
    r = 0;
    goto look
  };
body:
  atomic { run_body(r); r = 0 };
  goto look;

callback:
end_callback:
  atomic {
    in_set(id, registered) && (late || !in_set(id, reluctant));
    in_callback[id]++
  };
#ifdef WITHDRAW_BY_STORE
  atomic { touch(id); s = word[id] };
#endif
  atomic {
    touch(id);
#ifndef WITHDRAW_BY_STORE
    s = word[id];
#endif
    if
    :: s & (TAKEN | WITHDRAWN | ASKED) -> s = 0; goto callback_over
    :: else
    fi;
    s = 0;
    word[id] = word[id] | ASKED;
#ifndef WITHDRAW_PINNED
    if
    :: pins[id] > 0 -> goto callback_over
    :: else
    fi;
#endif
    word[id] = word[id] | WITHDRAWN;
    results = bit(id);
  };
  goto withdrawn_it;

left:
  hand_back();
  if
  :: pusher -> atomic { unpin(id, 0); pusher = false }
  :: else
  fi;
  if
  :: in_set(id, results) -> goto withdrawn_it
  :: role == cancel -> goto callback_over
  :: else -> goto finished
  fi;

withdrawn_it: /* id is withdrawn by this thread, and its node is not freed before it is resumed */
#ifdef WITHDRAW_FREES_SECTION
  atomic { alive(); places = 0; owner = NOBODY };
#endif
  if
  :: word[id] & POSTED -> 
#ifdef POSTED_STAYS_OWNED
     goto left;
#endif
#ifdef POSTED_RESUMES_FIRST
     hand_back();
#endif
     atomic { take_over_posted() };
#ifdef POSTED_WITHOUT_NEXT
     atomic { places = 0; ended_places = 0; owner = NOBODY };
     goto left;
#endif
     goto next
  :: else -> goto left
  fi;

callback_over:
  in_callback[id]--;
finished:
  passes = false
}

/* The coroutine, on any thread. */
proctype resumption(byte id) {
end_resumption:
  atomic { /* deregistering is in it: what is called meanwhile is called before */
#ifdef NO_DEREGISTRATION
    in_set(id, resumed & made);
#else
    in_set(id, resumed & made) && in_callback[id] == 0;
#endif
    registered = registered & ~bit(id);
    assert(in_set(id, ran) != ((word[id] & WITHDRAWN) != 0));
    touch(id);
    word[id] = word[id] | AWAITER_DONE;
#ifdef ONE_REFERENCE
    if
    :: word[id] & WITHDRAWN -> freed = freed | bit(id)
    :: else
    fi;
#endif
    settle(id);
    over = over | bit(id);
    ended++
  }
}

proctype destroyer() {
  byte n;
  do
  :: atomic { ended == N -> break }
  :: atomic { /* nothing goes on: who is left is set aside, and rightly */
       timeout ->
       assert(!late);
       assert(places == 0 && owner == NOBODY);
       for (n : 0 .. W) {
         assert(in_set(n, over) || (in_set(n, set_aside) && items == 0))
       }
       late = true
     }
  od;
  atomic {
    assert(places == 0 && !parked && owner == NOBODY && empty(line));
    do
    :: nempty(aside) ->
       aside?n;
       touch(n);
       assert(word[n] & WITHDRAWN);
#ifndef END_KEEPS_TOMBSTONES
       word[n] = word[n] | SECTION_DONE;
#endif
       settle(n)
    :: empty(aside) -> break
    od;
    gone = true;
    n = 0
  };
  (freed == made)
}

init {
  byte p;
  atomic {
    for (p : 1 .. W) {
      if
      :: true
      :: reluctant = reluctant | bit(p)
      fi
    }
#ifdef ANY_TIME
    run thread(0, work);
#else
    places = 1;
    owner = 1;
#endif
    run thread(0, issue);
    for (p : 1 .. W) {
      run thread(p, issue);
      run resumption(p);
      run thread(p, work);
      run thread(p, cancel)
    }
#ifdef TWICE
    run thread(1, cancel);
#endif
    p = 0;
    run destroyer()
  }
}
