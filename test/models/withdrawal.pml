/* withdrawal - a request that is taken out of the line before its turn.
 *
 * Models     the cancellation planned for lib/section: a pooled node stands in line for its
 *            awaiter; the owner claims it or a canceller withdraws it, by a compare-and-swap on its
 *            state. Idea: states and two references as in the design notes (algorithms, 4); that
 *            resuming waits for the thread that pushed, and claiming comes before handing back, is
 *            from here
 * Abstracts  sequentially consistent: memory orders are the business of test/schedule. The line is
 *            a queue whose push, pop and idle test are one step each: how, is in the models of the
 *            rings. Resuming posts the awaiter, which goes on by itself.
 * Sizes      W awaiters with one request each, and a canceller for each that comes at any time or
 *            never
 * Checks     one owner at a time; each request runs or is withdrawn, and its awaiter is resumed
 *            once; no node is touched after it was freed, and all are freed; no frame is touched
 *            after its awaiter was resumed; nobody touches the section after the last awaiter has
 *            gone on
 *
 * Ablations  each must fail
 *   CLAIM_BY_STORE          the owner looks, then stores: it runs what was withdrawn between
 *   WITHDRAW_BY_STORE       so does the canceller: it withdraws what runs
 *   WITHDRAW_FREES_SECTION  withdrawing lets the next one in beside the owner
 *   SKIP_LEAVES             the owner takes a withdrawn request for the end of the line
 *   SKIP_KEEPS_REFERENCE    the owner does not drop its reference of a withdrawn node
 *   ONE_REFERENCE           who withdraws frees the node: it is still in line
 *   NO_DEREGISTRATION       the awaiter drops its reference while the canceller looks at the node
 *   RESUME_BEFORE_PUSHED    the awaiter goes on while its node is still being pushed
 *   PUSHED_WHILE_OWNER      who takes over lets go of its own node before it has left the section:
 *                           it is withdrawn
 *   HAND_BACK_BEFORE_CLAIM  results go back because another request is there, which is withdrawn:
 *                           the owner has still to leave the section
 *   LOOK_AT_FRAME_FIRST     the owner looks at the frame before it has claimed the request
 */

#ifndef W
#define W 3
#endif

#define NOBODY 255

mtype = { unused, queued, running, withdrawn };
mtype = { neither, decided, pushed, both };

/* the section */
bool busy;
chan line = [W] of { byte };

/* the nodes */
mtype state[W] = unused;
byte references[W];
bool freed[W];
mtype phase[W] = neither; /* of the push and the decision, who is second resumes */

/* stop callbacks */
bool registered[W], in_callback[W];

/* ghost */
byte owner = NOBODY;
bool ran[W], resumed[W], over[W];
byte ended;
bool gone;

#define alive() assert(!gone)
#define mine() assert(!gone && owner == _pid)
#define touch(r) assert(!freed[r])

inline own() {
  assert(owner == NOBODY);
  owner = _pid
}

inline drop(r) {
  touch(r);
  references[r]--;
  freed[r] = (references[r] == 0)
}

inline resume(r) {
  assert(!resumed[r]);
  resumed[r] = true
}

/* The outcome of r is known. */
inline decide(r) {
#ifdef RESUME_BEFORE_PUSHED
  resume(r)
#else
  touch(r);
  if
  :: phase[r] == pushed -> resume(r)
  :: else -> phase[r] = decided
  fi
#endif
}

inline run_body(r) {
  mine();
  assert(!resumed[r] && !ran[r]);
  ran[r] = true
}

/* Results go back; also the owner's, for it may have passed the section on to a job. */
inline hand_back() {
  d_step {
    for (n : 0 .. W - 1) {
      if
      :: done[n] && n == id && !queued_up -> resume(n)
      :: done[n] && !(n == id && !queued_up) -> decide(n); drop(n)
      :: else
      fi;
      done[n] = false
    }
    n = 0
  }
}

/* The thread that the request is issued on. */
proctype issue(byte id) {
  byte n, r;
  bool done[W];
  bool queued_up;
  mtype s;

  atomic { /* arrive */
    alive();
    if
    :: !busy -> busy = true; own(); freed[id] = true
    :: else -> state[id] = queued; references[id] = 2; queued_up = true; goto push
    fi
  };
  atomic { run_body(id); done[id] = true };

next:
  atomic {
    mine();
    if
    :: nempty(line) -> line?r
    :: empty(line) -> busy = false; owner = NOBODY; goto left
    fi
  };
#ifdef LOOK_AT_FRAME_FIRST
  atomic { mine(); touch(r); assert(!resumed[r]) };
#endif
#ifdef HAND_BACK_BEFORE_CLAIM
  hand_back();
#endif
#ifdef CLAIM_BY_STORE
  atomic { mine(); touch(r); s = state[r] };
#endif
  atomic {
    mine();
    touch(r);
#ifndef CLAIM_BY_STORE
    s = state[r];
#endif
    if
    :: s == queued -> state[r] = running; s = 0
    :: else ->
       s = 0;
#ifndef SKIP_KEEPS_REFERENCE
       drop(r);
#endif
       r = 0;
#ifdef SKIP_LEAVES
       busy = false;
       owner = NOBODY;
       goto left
#endif
       goto next
    fi
  };
  if
  :: true
  :: true -> hand_back() /* r is claimed, so the section is still needed */
  fi;
  atomic {
    run_body(r);
    done[r] = true
  };
  atomic { r = 0; goto next };

push:
  registered[id] = true;
  atomic {
    alive();
    if
    :: busy -> line!id
    :: else -> /* it has become idle: the first in line is this one */
       busy = true;
       own();
       line!id;
#ifndef PUSHED_WHILE_OWNER
       goto next
#endif
    fi
  };
pushed_it:
  atomic {
#ifndef RESUME_BEFORE_PUSHED
    touch(id);
    if
    :: phase[id] == decided -> resume(id)
    :: else -> phase[id] = pushed
    fi;
#endif
    if
    :: owner == _pid -> goto next
    :: else -> goto finished
    fi
  };

left:
  hand_back();
#ifndef PUSHED_WHILE_OWNER
  if
  :: queued_up -> goto pushed_it
  :: else
  fi;
#endif
finished:
  skip
}

/* The coroutine, on any thread. */
proctype resumption(byte id) {
  (resumed[id]);
  atomic {
    assert(ran[id] != (state[id] == withdrawn));
    if
    :: state[id] == unused -> goto finished
    :: else
    fi
  };
#ifndef NO_DEREGISTRATION
  registered[id] = false;
  (!in_callback[id]);
#endif
#ifdef ONE_REFERENCE
  if
  :: state[id] == withdrawn -> goto finished
  :: else
  fi;
#endif
  atomic { drop(id) };
finished:
  atomic { over[id] = true; ended++ }
}

proctype canceller(byte id) {
  mtype s;
  if
  :: atomic { registered[id] -> in_callback[id] = true }
  :: over[id] -> goto unused_callback
  fi;
#ifdef WITHDRAW_BY_STORE
  atomic { touch(id); s = state[id] };
#endif
  atomic {
    touch(id);
#ifndef WITHDRAW_BY_STORE
    s = state[id];
#endif
    if
    :: s == queued -> state[id] = withdrawn
    :: else -> s = 0; goto callback_over
    fi
  };
#ifdef WITHDRAW_FREES_SECTION
  atomic { alive(); busy = false; owner = NOBODY };
#endif
  atomic { s = 0; decide(id) };
#ifdef ONE_REFERENCE
  freed[id] = true;
#endif
callback_over:
  in_callback[id] = false;
unused_callback:
  skip
}

proctype destroyer() {
  byte n;
  atomic {
    ended == W;
    assert(!busy && owner == NOBODY && empty(line));
    gone = true
  };
  for (n : 0 .. W - 1) {
    (freed[n])
  }
}

init {
  byte p;
  atomic {
    for (p : 0 .. W - 1) {
      run issue(p);
      run resumption(p);
      run canceller(p)
    }
    p = 0;
    run destroyer()
  }
}
