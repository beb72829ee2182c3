/* wait_edges - waits that would never end are found before anybody waits for ever, and no others.
 *
 * Models     include/turnstile/detail/wait_graph.hpp and lib/registry/wait_graph.cpp: telling and
 *            searching under one lock; waits of work that has its scope only, told in its frame and
 *            found from the scope once that is watched; `over` set before a section goes on, and the
 *            wait taken back later; joins, settled under the lock (lib/resume/scope_core.cpp)
 * Abstracts  sequentially consistent: memory orders are the business of test/schedule. Who of those
 *            who wait gets a free section is left open, and the waiter does what its server does.
 *            A body's own waits come after the one for its section is taken back. Guards are unlocked
 *            by who holds them. A search looks at the waits one by one, and in the table whether it
 *            is over as well
 * Sizes      C chains that enter up to D of S sections, each inside the one before, or join the scope
 *            inside one; M pieces of work of a scope that do the same, the last of them spawned
 *            meanwhile; with K two children side by side, in section 0
 * Checks     no cycle goes unreported (then nobody can go on); what is reported is a cycle at that
 *            instant; no wait is looked at after its end
 * Not seen   guards unlocked by others, several scopes, and who is refused of several on one cycle
 *
 * Ablations  each must fail
 *   SEARCH_FIRST         the search comes before the wait is told
 *   NO_OVER              a search does not ask whether a wait is over
 *   OVER_LATE            over is set after the section has gone on
 *   NO_OVER_OF_JOINS     a join is never over
 *   SETTLE_WITHOUT_LOCK  a join is over some time after nothing ran
 *   NO_LOOK_AT_WATCHED   work never looks whether its scope is watched
 *   NO_LOOK_AT_MEMBERS   a search goes to a scope, and not into it
 *   WATCHED_LATE         a scope is watched after its work was looked at
 *   FRAME_JOIN_IS_QUIET  work that joins does not search unless its own scope is watched
 *   NO_WAIT_FOR_SEARCH   a wait in a frame ends whether or not a search looks at it
 *   ONLY_INNERMOST       only the frame entered last is in the table
 *   ONLY_OUTERMOST       only the frame entered first
 *   STAYS_TOLD           a wait that was refused is not taken back
 */

#ifndef C
#define C 2
#endif
#ifndef M
#define M 0
#endif
#ifndef K
#define K 0
#endif
#ifndef S
#define S 2
#endif
#ifndef D
#define D 2
#endif

#define N (C + M + 2 * K) /* who may wait */
#define SCOPE S           /* the node behind those of the sections */
#define FREE 0
#define BUSY 100
#define ME (id + 1)
#define bit(n) (1 << (n))

byte owner[S];
byte running;                  /* of the scope's work */
byte children;                 /* that have not ended */
bool locked, watched;

/* of waits */
byte has[N];                   /* a bit for each node that the chain has */
byte listed[N];                /* those of them that the table knows */
byte wants[N];
bool in_table[N], in_frame[N], over[N];

/* ghost */
bool really[N];                /* waits: from the decision until its turn comes */
bool alive[N];                 /* the wait that a search may look at */

inline lock() { atomic { !locked -> locked = true } }
inline unlock() { locked = false }

/* What the table gets to know of the chain. */
inline list_nodes() {
#ifdef ONLY_INNERMOST
  listed[id] = (depth > 0 -> bit(held[depth - 1]) : base)
#else
# ifdef ONLY_OUTERMOST
  listed[id] = (base != 0 -> base : bit(held[0]))
# else
  listed[id] = has[id]
# endif
#endif
}

inline tell() {
  atomic {
    over[id] = false;
    alive[id] = true;
    if
    :: has[id] == bit(SCOPE) -> in_frame[id] = true
    :: else -> in_table[id] = true; list_nodes()
    fi
  }
}

inline look_at(u) {
  if
  :: (seen & bit(u)) != 0
#ifndef NO_OVER
  :: (seen & bit(u)) == 0 && over[u]
  :: (seen & bit(u)) == 0 && !over[u] ->
#else
  :: else ->
#endif
     seen = seen | bit(u);
     todo = todo | bit(wants[u])
  fi
}

inline look_into_scope() {
#ifndef WATCHED_LATE
  watched = true;
#endif
#ifndef NO_LOOK_AT_MEMBERS
  for (q : C .. C + M - 1) {
    if
    :: in_frame[q] -> atomic { assert(alive[q]); look_at(q) }
    :: else
    fi
  }
#endif
#ifdef WATCHED_LATE
  watched = true;
#endif
}

/* From the node wanted along the waits; `hit` if that comes to a node that this chain has. */
inline search() {
  todo = bit(w);
  seen = bit(id);
  do
  :: (todo & has[id]) != 0 -> hit = true; break
  :: (todo & has[id]) == 0 && todo == 0 -> break
  :: (todo & has[id]) == 0 && todo != 0 ->
     atomic {
       at = 0;
       do
       :: (todo & bit(at)) == 0 -> at++
       :: else -> break
       od;
       todo = todo & ~bit(at)
     };
     for (q : 0 .. N - 1) {
       atomic {
         if
         :: in_table[q] && (listed[q] & bit(at)) != 0 -> look_at(q)
         :: else
         fi
       }
     }
     if
     :: at == SCOPE -> look_into_scope()
     :: else
     fi
  od;
  atomic { at = 0; q = 0; todo = 0; seen = 0 }
}

/* A report is right if the waits that there really are lead back. */
inline check_report() {
  d_step {
    todo = bit(w);
    for (at : 1 .. N) {
      for (q : 0 .. N - 1) {
        if
        :: q != id && really[q] && (has[q] & todo) != 0 -> todo = todo | bit(wants[q])
        :: else
        fi
      }
    }
    assert((todo & has[id]) != 0);
    at = 0;
    q = 0;
    todo = 0
  }
}

inline take_back() {
  d_step { in_table[id] = false; in_frame[id] = false; listed[id] = 0 }
}

/* Refused if `hit`. */
inline begin_wait() {
#ifdef SEARCH_FIRST
  if
  :: has[id] == 0
  :: has[id] != 0 -> lock(); search(); unlock(); if :: !hit -> lock(); tell(); unlock() :: else fi
  fi;
  if
  :: hit -> check_report()
  :: else
  fi
#else
  if
  :: has[id] == 0 -> goto told
  :: has[id] == bit(SCOPE) ->
     tell();
     if
# ifndef NO_LOOK_AT_WATCHED
     :: watched
# endif
# ifndef FRAME_JOIN_IS_QUIET
     :: w == SCOPE
     :: else -> goto told
# else
     :: else -> goto told
# endif
     fi;
     lock()
  :: else -> lock(); tell()
  fi;
  search();
  if
  :: hit ->
     check_report();
# ifndef STAYS_TOLD
     take_back();
# endif
     d_step { really[id] = false; alive[id] = false }
  :: else
  fi;
  unlock()
#endif
}

inline end_wait() {
  if
  :: in_frame[id] ->
     in_frame[id] = false;
#ifndef NO_WAIT_FOR_SEARCH
     if
     :: watched -> lock(); unlock()
     :: else
     fi;
#endif
     alive[id] = false
  :: in_table[id] -> lock(); take_back(); alive[id] = false; unlock()
  :: else
  fi
}

proctype chain(byte id; byte base) {
  byte depth, w, at, q, todo, seen;
  byte held[D];
  bool hit;

enter:
  if
  :: depth < D ->
     atomic {
       select (w : 0 .. S);
       if
#if M > 0
       :: w == SCOPE && has[id] != 0 && running > 0 -> skip
#endif
       :: w == SCOPE -> w = 0; goto leave
       :: w != SCOPE && (has[id] & bit(w)) != 0 -> w = 0; goto leave
       :: w != SCOPE && (has[id] & bit(w)) == 0 && owner[w] == FREE ->
          owner[w] = ME;
          held[depth] = w;
          depth++;
          has[id] = has[id] | bit(w);
          w = 0;
          goto enter
       :: w != SCOPE && (has[id] & bit(w)) == 0 && owner[w] != FREE -> skip
       fi;
       wants[id] = w;
       really[id] = true
     };
     begin_wait();
     if
     :: hit -> atomic { hit = false; really[id] = false; w = 0; goto leave }
     :: else
     fi;
told:
     if
     :: w != SCOPE ->
        atomic { owner[w] == FREE -> owner[w] = BUSY; really[id] = false };
#ifndef OVER_LATE
        over[id] = true;
#endif
        if
        :: owner[w] = FREE /* a plain body, and the section goes on */
        :: depth < D -> atomic { owner[w] = ME; held[depth] = w; depth++; at = bit(w) }
        fi;
#ifdef OVER_LATE
        over[id] = true;
#endif
        end_wait();
        atomic { has[id] = has[id] | at; at = 0; w = 0; over[id] = false; wants[id] = 0 };
        goto enter
     :: else ->
#ifdef SETTLE_WITHOUT_LOCK
        atomic { running == 0 -> really[id] = false };
        over[id] = true;
#else
settle:
        running == 0;
        lock();
        if
        :: atomic { running == 0 -> really[id] = false };
# ifndef NO_OVER_OF_JOINS
           over[id] = true;
# endif
           unlock()
        :: else -> unlock(); goto settle
        fi;
#endif
        end_wait();
        atomic { w = 0; over[id] = false; wants[id] = 0 };
        goto leave
     fi
  :: true
  fi;

leave:
  do
  :: depth > 0 ->
     atomic {
       depth--;
       has[id] = has[id] & ~bit(held[depth]);
       owner[held[depth]] = FREE;
       held[depth] = 0
     }
  :: else -> break
  od;
  atomic {
    if
    :: base == bit(SCOPE) -> running--
    :: base == bit(0) -> children--
    :: else
    fi
  }
}

init {
  byte p;
  atomic {
    for (p : 0 .. C - 1) { run chain(p, 0) }
#if M > 1
    for (p : C .. C + M - 2) {
      has[p] = bit(SCOPE);
      running++;
      run chain(p, bit(SCOPE))
    }
#endif
  };
#if M > 0
  atomic {
    has[C + M - 1] = bit(SCOPE);
    running++;
    run chain(C + M - 1, bit(SCOPE))
  };
#endif
#if K > 0
  atomic { owner[0] == FREE -> owner[0] = BUSY };
  atomic {
    children = 2;
    for (p : C + M .. C + M + 1) {
      has[p] = bit(0);
      run chain(p, bit(0))
    }
  };
  children == 0;
  owner[0] = FREE
#endif
}
