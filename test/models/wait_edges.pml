/* wait_edges - finding cycles of chains that wait for each other's sections.
 *
 * Models     the detector planned for lib/registry: an edge word for each section, a version and
 *            the section that its execution waits for; publish, chase, verify, wait; clear before
 *            the section waited for is handed on. Idea: wait-for edges with versions as in the
 *            design notes (algorithms, 3.3); the model is our own
 * Abstracts  sequentially consistent: memory orders are the business of test/schedule. Who of those
 *            who wait gets a free section is left open. An edge's version and target are one word.
 * Sizes      C chains that enter up to D of S sections, each inside the one before, R times over
 * Checks     no cycle goes unreported (it would never end); what is reported was a cycle at one
 *            instant: `dead` marks the chains on it when the last edge closes it. A chain that is
 *            refused counts as waiting until its last edge is cleared: so a second one may be
 *            refused for a cycle that the first is about to break
 * Not seen   that a version is needed beside the target: an edge that goes and comes back misleads
 *            the verification only on a path of three, with four chains, which is too much to
 *            search
 *
 * Ablations  each must fail
 *   CHASE_FIRST        the chase comes before the own edges are published: two miss each other
 *   NO_VERIFY          the path may be made of edges from different instants
 *   LATE_CLEAR         cleared after the section was handed on: the next owner sees an old edge
 *   NO_CLEAR           not cleared at all when the wait is over
 *   NO_CLEAR_ON_RAISE  not cleared by who is refused
 *   ONLY_INNERMOST     only the section entered last gets an edge: the outer ones hide a cycle
 *   ONLY_OUTERMOST     only the section entered first gets one
 */

#ifndef C
#define C 2
#endif
#ifndef S
#define S 3
#endif
#ifndef D
#define D 2
#endif
#ifndef R
#define R 1
#endif

#define FREE 0
#define NONE 0
#define ME (id + 1)

byte owner[S];                 /* FREE or chain + 1 */
byte edge[S];                  /* NONE or section + 1 */
byte version[S];

/* ghost */
byte wants[C];                 /* section + 1, from the decision to wait until it is entered */
bool dead[C];

/* Marks the cycle that the wait of chain `id` closes. */
inline mark() {
  d_step {
    g = id;
    n = 0;
    do
    :: n < C && wants[g] != NONE && owner[wants[g] - 1] != FREE ->
       g = owner[wants[g] - 1] - 1;
       n++;
       if
       :: g == id -> break
       :: else
       fi
    :: else -> g = C; break
    od;
    do
    :: g < C ->
       dead[g] = true;
       g = owner[wants[g] - 1] - 1;
       if
       :: g == id -> break
       :: else
       fi
    :: else -> break
    od;
    g = 0;
    n = 0
  }
}

/* Sets the edges of all sections held, one after the other. */
inline set_edges(to) {
  n = 0;
#ifdef ONLY_INNERMOST
  n = depth - 1;
#endif
  do
  :: n < depth -> atomic {
       edge[held[n]] = to;
       version[held[n]]++;
       n++;
#ifdef ONLY_OUTERMOST
       n = depth
#endif
     }
  :: else -> break
  od;
  n = 0
}

/* From the section wanted along the edges; `hit` if that comes to a section held here. */
inline chase() {
  at = w;
  hit = false;
  do
  :: n < S ->
     atomic {
       path[n] = at;
       seen[n] = version[at];
       at = edge[at]
     };
     n++;
     atomic {
       if
       :: at == NONE -> break
       :: else ->
          at--;
          if
          :: owner[at] == ME -> hit = true; break
          :: else
          fi
       fi
     }
  :: else -> break
  od
}

/* Whether nothing on the path has changed since the chase. */
inline verify() {
  at = 0;
  do
  :: hit && at < n ->
     atomic {
       hit = (version[path[at]] == seen[at]);
       at++
     }
  :: else -> break
  od
}

proctype chain(byte id) {
  byte round, depth, w, n, at, g;
  byte held[D], path[S], seen[S];
  byte waited; /* bit d: entering held[d] took a wait */
  bool hit;
again:
  round++;
enter:
  if
  :: depth < D ->
     atomic {
       select (w : 0 .. S - 1);
       if
       :: owner[w] == ME -> w = 0; goto enter
       :: owner[w] == FREE ->
          owner[w] = ME;
          held[depth] = w;
          depth++;
          w = 0;
          goto enter
       :: else -> wants[id] = w + 1; mark()
       fi
     };
     if
     :: depth > 0 ->
#ifdef CHASE_FIRST
        chase();
        verify();
        n = 0;
        set_edges(w + 1);
#else
        set_edges(w + 1);
        chase();
# ifndef NO_VERIFY
        verify();
# endif
#endif
        atomic {
          n = 0;
          at = 0;
          for (g : 0 .. S - 1) { path[g] = 0; seen[g] = 0 }
          g = 0
        };
        if
        :: hit ->
           hit = false;
           assert(dead[id]);
#ifndef NO_CLEAR_ON_RAISE
           set_edges(NONE);
#endif
           atomic { w = 0; wants[id] = NONE; dead[id] = false; goto leave }
        :: else
        fi
     :: else
     fi;
     atomic {
       owner[w] == FREE ->
          owner[w] = ME;
          wants[id] = NONE;
          dead[id] = false;
          held[depth] = w;
          waited = waited | (1 << depth);
          depth++;
          w = 0;
          goto enter
     }
  :: depth > 0
  fi;

leave:
  depth--;
#ifdef LATE_CLEAR
  owner[held[depth]] = FREE;
#endif
#ifndef NO_CLEAR
  if
  :: (waited & (1 << depth)) != 0 -> set_edges(NONE)
  :: else
  fi;
#endif
  atomic {
    waited = waited & ~(1 << depth);
#ifndef LATE_CLEAR
    owner[held[depth]] = FREE;
#endif
    held[depth] = 0
  };
  if
  :: depth > 0 -> goto leave
  :: depth == 0 && round < R -> goto again
  :: depth == 0 && round == R
  fi
}

init {
  byte p;
  atomic {
    for (p : 0 .. C - 1) {
      run chain(p)
    }
  }
}
