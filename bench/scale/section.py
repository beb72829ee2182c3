"""A section of ours, with its ring, and the pool whose coroutines ask for it."""

from machine import FUTEX_WAKE, MEMBARRIER, WAKE_UP, Line

IN_A_TURN = 32     # bodies: thread_state.hpp, budget.hpp
# budget.hpp; the latter also where bodies are short, with serving. It is 400 us by now where what is served stays.
MOST_TIME, MOST_BRISK_TIME = 50e3, 200e3
MOST_OF_SHORT = 500.0
HAND_BACK = 2e3    # budget.hpp
PILES = 4          # batch.hpp
BRISK, MOST_BRISK = 200.0, 2e3  # ns a request, beside serving and with it: pace.hpp
SHORTEST_LOOK, LONGEST_LOOK = 20e3, 1e6
LOOKS = 20         # thread_pool.cpp
NAP, LONGEST_NAP = 50e3, 200e3
WORTH_IT, MOST_PATIENCE = 4096, 12  # keeper.hpp


class Pace:
    """Of what a worker has done: requests, and the time it has served. Without its trials, of which one takes longer
    than what is simulated as a rule."""

    def __init__(self):
        self.begun, self.done, self.brisk = -LONGEST_LOOK - 1, (0, 0.0), False

    def begin(self, done, now):
        self.done, self.begun = done, now

    def look(self, done, now):
        gone = now - self.begun
        if gone > LONGEST_LOOK:
            self.brisk = False
            self.begin(done, now)
        elif gone >= SHORTEST_LOOK:
            requests, serving = done[0] - self.done[0], done[1] - self.done[1]
            self.brisk = requests * BRISK >= gone - serving and requests * MOST_BRISK >= gone
            self.begin(done, now)
        return self.brisk


class Request:
    """With its coroutine, whose home is where it suspends."""

    def __init__(self, worker):
        core = worker.core
        self.head, self.mid, self.tail = Line(core), Line(core), Line(core)
        self.home = worker
        self.ticket = None
        self.asked = None


class Worker:
    def __init__(self, core):
        self.core = core
        self.queue, self.mail = Line(core), Line(core)
        self.bodies, self.keeper = Line(core), Line(core)
        self.jobs, self.letters = [], []
        self.ran = 0      # bodies
        self.to_be_served = self.served = 0
        self.serving = self.brisk_serving = 0.0
        self.told = (0, 0.0)  # bodies and brisk serving, as others see them
        self.turn_ends = IN_A_TURN
        self.pace = Pace()
        self.others = {}  # thieves' view
        self.process = None
        # its keeper
        self.keeps = self.is_inside = self.is_wanted = False
        self.since = 0
        self.seen, self.turns = -1, 0

    def asked(self):
        return (self.ran - self.served + self.to_be_served, self.serving)

    def tell(self):
        self.told = (self.ran, self.brisk_serving)

    def serve_for(self, time, brisk):
        self.serving += time
        self.brisk_serving += time if brisk else 0.0

    def has_backlog(self):
        return bool(self.jobs or self.letters)


class Cell:
    def __init__(self, line):
        self.line, self.chain, self.parked, self.version = line, [], False, 0


class TicketRing:
    can_be_kept = True

    def __init__(self, section, cells):
        lines = [Line() for _ in range(max(1, cells // 8))]
        self.s = section
        self.cells = [Cell(lines[i // 8]) for i in range(cells)]
        self.pending = self.next_ticket = 0
        self.head = self.known = self.unaccounted = 0
        self.stash = {}

    def arrive(self, w, r):
        """True: the caller owns the section."""
        yield from self.s.m.do(w.core, "arrive" + self.s.apart, section=self.s)
        r.ticket = self.next_ticket
        self.next_ticket += 1
        self.pending += 1
        return self.pending == 1

    def leave(self, r):
        self.pending -= 1
        self.begin(r)
        self.head, self.known = r.ticket + 1, self.pending
        return self.pending == 0

    def begin(self, r):
        self.head, self.unaccounted, self.known = r.ticket, 0, 1

    def finish(self):
        self.head += 1
        self.unaccounted += 1

    def publish(self, w, r):
        """True: take over."""
        m, cell = self.s.m, self.cells[r.ticket % len(self.cells)]
        yield from m.do(w.core, "publish", frame=r, cell=cell)
        while True:
            seen = cell.version
            yield from m.do(w.core, "publish cas", cell=cell)
            if cell.version == seen:
                break
        cell.version += 1
        if not cell.parked:
            cell.chain.append(r)
            return False
        cell.parked = False
        self.stash[r.ticket] = r
        return True

    def account(self, w):
        if self.unaccounted:
            yield from self.s.m.do(w.core, "account", section=self.s)
            self.pending -= self.unaccounted
            self.unaccounted, self.known = 0, self.pending

    def next(self, w):
        m = self.s.m
        if self.unaccounted == self.known:
            yield from self.account(w)
            if self.pending == 0:
                return None
        cell = self.cells[self.head % len(self.cells)]
        while self.head not in self.stash:
            yield from m.do(w.core, "look at cell", section=self.s, cell=cell)
            if cell.chain:
                yield from self.collect(w, cell)
                continue
            yield from self.account(w)
            yield from m.do(w.core, "park", cell=cell)
            if not cell.chain:
                cell.parked = True
                cell.version += 1
                return None
        return self.stash.pop(self.head)

    def collect(self, w, cell):
        yield from self.s.m.do(w.core, "collect", cell=cell)
        chain, cell.chain = cell.chain, []
        cell.version += 1
        for r in chain:
            yield from self.s.m.do(w.core, self.s.walk, frame=r)
            self.stash[r.ticket] = r

    def put_back(self, r):
        self.stash[r.ticket] = r


class InboxRing:
    can_be_kept = False

    def __init__(self, section):
        self.s = section
        self.busy, self.chain, self.first, self.version = False, [], [], 0
        self.counted = 0

    def arrive(self, w, r):
        yield from self.s.m.do(w.core, "arrive" + self.s.apart, section=self.s)
        if self.busy:
            return False
        self.busy = True
        self.version += 1
        return True

    def leave(self, r):
        if self.chain:
            return False
        self.busy = False
        self.version += 1
        return True

    def begin(self, r):
        self.counted = 0

    def finish(self):
        pass

    def publish(self, w, r):
        m = self.s.m
        yield from m.do(w.core, "inbox count", section=self.s, frame=r)
        while True:
            seen = self.version
            yield from m.do(w.core, "inbox cas", section=self.s)
            if self.version == seen:
                break
        self.version += 1
        if self.busy:
            self.chain.append(r)
            return False
        self.busy = True
        self.first = [r]
        return True

    def account(self, w):
        if self.counted:
            yield from self.s.m.do(w.core, "account", section=self.s)
            self.counted = 0

    def next(self, w):
        m = self.s.m
        if not self.first:
            yield from self.account(w)
            yield from m.do(w.core, "look at inbox", section=self.s)
            yield from m.do(w.core, "take inbox", section=self.s)
            self.version += 1
            if not self.chain:
                self.busy = False
                return None
            chain, self.chain = self.chain, []
            for r in reversed(chain):
                yield from m.do(w.core, self.s.walk, frame=r)
            self.first = chain
        self.counted += 1
        return self.first.pop(0)

    def put_back(self, r):
        self.first.insert(0, r)
        self.counted -= 1


class Section:
    def __init__(self, m, ring="ticket", cells=8, ahead=False):
        self.m = m
        self.word, self.mine, self.data = Line(), Line(), Line()
        self.sleepers = Line()  # the pool's
        self.apart = ", apart" if ahead else ""
        self.ahead, self.piles = ahead, IN_A_TURN if ahead else PILES
        self.walk = "walk, ahead" if ahead else "walk"
        self.ring = InboxRing(self) if ring == "inbox" else TicketRing(self, cells)
        self.executions = self.patience = 0
        self.kept_by = None
        self.workers = []
        self.searching, self.asleep = 0, []
        self.case = None

    def start(self, case):
        self.case = case
        self.workers = [Worker(core) for core in range(case.cores)]
        for i in range(case.clients):
            w = self.workers[i % case.cores]
            w.jobs.append(Request(w))
        for w in self.workers:
            w.process = self.work(w)
            self.m.at(self.m.random.uniform(0, case.work + 100), w.process)

    # -- the pool

    def work(self, w):
        while True:
            job = yield from self.own_job(w)
            if job is None:
                job = yield from self.search(w)
            if job is self:
                yield from self.serve((yield from self.ring.next(w)), w, None, None)
            else:
                yield from self.go_on(w, job)
            yield from self.m.do(w.core, "ended", me=w)
            w.tell()

    def own_job(self, w):
        m = self.m
        yield from m.do(w.core, "any mail", me=w)
        if w.letters:
            yield from self.take_mail(w, w, "take mail")
        while w.jobs:
            yield from m.do(w.core, "take", me=w)
            if w.jobs:
                return w.jobs.pop(0)
        return None

    def take_mail(self, w, of, step):
        m = self.m
        yield from m.do(w.core, step, me=w, victim=of)
        letters, of.letters = of.letters, []
        for r in letters:
            yield from m.do(w.core, "walk", frame=r)
        if letters:
            yield from self.keep(w, letters)
            if len(letters) > 1:
                yield from self.wake_one(w)

    def keep(self, w, jobs):
        yield from self.m.do(w.core, "append", me=w)
        w.jobs.extend(jobs)

    def wake_one(self, w):
        m = self.m
        yield from m.do(w.core, "posted", pool=self)
        if not self.asleep or self.searching:
            return
        yield from m.do(w.core, "sleepers", pool=self)
        if not self.asleep or self.searching:
            return
        self.searching += 1
        woken = self.asleep.pop(0)
        m.at(m.now + WAKE_UP, woken.process)
        yield from m.wait(FUTEX_WAKE)

    def search(self, w):
        m = self.m
        yield from m.do(w.core, "sleepers", pool=self)
        self.searching += 1
        while True:
            job = yield from self.look_round(w)
            if job is not None:
                yield from m.do(w.core, "sleepers", pool=self)
                self.searching -= 1
                if self.searching == 0 and self.anything_to_do():
                    yield from self.wake_one(w)
                return job
            yield from m.do(w.core, "sleepers", pool=self)
            self.searching -= 1
            if self.anything_to_do():
                self.searching += 1
            else:
                self.asleep.append(w)
                yield None  # whoever wakes it has counted it

    def anything_to_do(self):
        return any(w.has_backlog() for w in self.workers)

    def with_backlog(self, start):
        """In the order in which a thief looks at them, from `start` on and round."""
        some = [v for v in self.workers if v.jobs or v.letters]
        return [v for v in some if v.core >= start] + [v for v in some if v.core < start]

    def look_round(self, w):
        look, nap = 0, NAP
        while look < LOOKS:
            job = yield from self.own_job(w)
            if job is not None:
                return job
            busy = False
            start = self.m.random.randrange(len(self.workers))
            for victim in self.with_backlog(start):
                if victim is w:
                    continue
                # Of those that have nothing a look costs a hit, and moves no line in this model.
                yield from self.m.do(w.core, "look for work", victim=victim)
                if not (yield from self.worth_helping(w, victim)):
                    busy = True
                    continue
                job = yield from self.steal(w, victim)
                if job is not None:
                    return job
            look += 1
            if busy:
                yield from self.m.wait(nap)
                nap, look = min(nap * 2, LONGEST_NAP), 0
            else:
                yield from self.m.wait(1000 + 2 * len(self.workers))
        return None

    def worth_helping(self, w, victim):
        m = self.m
        seen = w.others.setdefault(victim.core, Pace())
        if m.now - seen.begun > LONGEST_LOOK:
            before = victim.told
            seen.begin(before, m.now)
            yield from m.wait(5e3)
            if victim.told[0] == before[0]:
                return True
            yield from m.wait(SHORTEST_LOOK)
        return not seen.look(victim.told, m.now)

    def steal(self, w, victim):
        m = self.m
        yield from m.do(w.core, "steal", me=w, victim=victim)
        if victim.jobs:
            half = (len(victim.jobs) + 1) // 2
            taken, victim.jobs = victim.jobs[:half], victim.jobs[half:]
            w.jobs = taken[1:]
            return taken[0]
        if victim.letters:
            yield from self.take_mail(w, victim, "take other's mail")
        return (yield from self.own_job(w))

    # -- a coroutine: works, asks, and so on until it suspends

    def go_on(self, w, r):
        m = self.m
        if r.asked is not None:
            yield from m.do(w.core, "resume", frame=r)
            self.case.done(r.asked)
            r.asked = None
        while True:
            yield m.now + self.case.private_work()
            r.asked = m.now
            if not (yield from self.execute(w, r)):
                return
            self.case.done(r.asked)
            r.asked = None
            if w.ran - w.turn_ends >= 0:
                w.turn_ends = w.ran + IN_A_TURN
                if w.has_backlog():
                    yield from self.keep(w, [r])
                    return

    def count(self, w):
        self.executions += 1
        w.ran += 1

    def execute(self, w, r):
        """False: suspended."""
        m, ring = self.m, self.ring
        if self.kept_by is w:
            if not w.is_wanted:
                yield from self.run_kept(w)
                return True
            yield from self.stop_keeping(w)
        if (yield from ring.arrive(w, r)):
            yield from m.do(w.core, "run at once" + self.apart, me=w, section=self)
            self.count(w)
            if self.comes_back(w) and (yield from self.start_keeping(w, r)):
                return True
            if not ring.leave(r):
                yield from self.serve((yield from ring.next(w)), w, None, IN_A_TURN)
            return True
        w.to_be_served += 1
        kept_by, since = self.kept_by, self.kept_by and self.kept_by.since
        if kept_by is not None and not kept_by.is_inside and (yield from self.take_away(w, kept_by, since)):
            yield from m.do(w.core, "run at once" + self.apart, me=w, section=self)
            self.count(w)
            ring.begin(r)
            if not ring.leave(r):
                yield from self.serve((yield from ring.next(w)), w, None, IN_A_TURN)
            return True
        yield from m.do(w.core, "queued" + self.apart, section=self, frame=r)
        r.home = w
        if (yield from ring.publish(w, r)):
            yield from m.do(w.core, "begin", section=self)
            return (yield from self.serve((yield from ring.next(w)), w, r, IN_A_TURN))
        if kept_by is not None and (yield from self.take_away(w, kept_by, since)):
            return (yield from self.serve((yield from ring.next(w)), w, r, IN_A_TURN))
        return False

    # -- kept by one worker

    def run_kept(self, w):
        w.is_inside = True
        yield from self.m.do(w.core, "kept", me=w, section=self)
        self.count(w)
        w.is_inside = False
        if w.is_wanted:
            yield from self.stop_keeping(w)

    def comes_back(self, w):
        if w.ran % IN_A_TURN or not self.ring.can_be_kept:
            return False
        alone = self.executions == w.seen + IN_A_TURN
        w.seen, w.turns = self.executions, w.turns + 1 if alone else 0
        return w.turns >= 1 << self.patience

    def start_keeping(self, w, r):
        yield from self.m.do(w.core, "keep", me=w, section=self)
        if self.ring.pending != 1:
            return False
        self.kept_by, w.is_wanted, w.since = w, False, self.executions
        return True

    def let_go(self, k):
        """True: idle. By whoever has taken it."""
        self.kept_by = None
        if self.executions - k.since < WORTH_IT:
            self.patience = min(self.patience + 2, MOST_PATIENCE)
        elif self.patience:
            self.patience -= 1
        ring = self.ring
        ring.pending -= 1
        ring.unaccounted, ring.known = 0, ring.pending
        ring.head = ring.next_ticket - ring.pending
        return ring.pending == 0

    def stop_keeping(self, w):
        self.kept_by, taken = None, w  # nobody else takes it from here on
        yield from self.m.do(w.core, "stop keeping", me=w, section=self)
        if not self.let_go(taken):
            yield from self.serve((yield from self.ring.next(w)), w, None, IN_A_TURN)

    def take_away(self, w, by, since):
        m = self.m
        yield from m.do(w.core, "want", section=self, by=by)
        if self.kept_by is not by or by.since != since:
            return False
        by.is_wanted = True
        yield from m.wait(MEMBARRIER)
        if self.kept_by is not by or by.since != since or by.is_inside:
            return False
        self.kept_by = None
        yield from m.do(w.core, "take away", section=self, by=by)
        return not self.let_go(by)

    # -- serving

    def serve(self, r, w, own, most):
        """True: `own` was served. Most None: a job of the section's own."""
        m, ring = self.m, self.ring
        own_served, n, next_look = False, 0, 1
        begun = handed_back = looked = m.now
        done = {}
        stays = w.pace.look(w.asked(), m.now)
        while r is not None:
            yield from m.do(w.core, "serve one" + self.apart, section=self, frame=r)
            self.count(w)
            w.served += 1
            if r is own:
                own_served = True
            else:
                yield from self.add(w, done, r, stays)
            ring.finish()
            r = yield from ring.next(w)
            if r is None:
                break
            n += 1
            if most is not None and n >= most:
                yield from self.pass_on(w, r)
                break
            if n < next_look:
                continue
            yield from m.do(w.core, "clock")
            gone = m.now - begun
            w.serve_for(m.now - looked, stays)
            looked = m.now
            if gone >= (MOST_BRISK_TIME if stays or gone < n * MOST_OF_SHORT else MOST_TIME):
                yield from self.pass_on(w, r)
                break
            next_look = n + int(min(max(HAND_BACK * n / gone, 1), min(n, IN_A_TURN)))
            if m.now - handed_back >= HAND_BACK:
                handed_back = m.now
                yield from ring.account(w)
                yield from self.flush(w, done)
                w.tell()
        yield from self.flush(w, done)
        return own_served

    def pass_on(self, w, r):
        yield from self.ring.account(w)
        self.ring.put_back(r)
        yield from self.keep(w, [self])
        yield from self.wake_one(w)

    def add(self, w, done, r, stays):
        home = w if stays else r.home
        if home not in done and len(done) == self.piles:
            yield from self.flush(w, done)
        if self.ahead and home is not w and home not in done:
            self.m.prefetch(w.core, home.mail)
        done.setdefault(home, []).append(r)

    def flush(self, w, done):
        m = self.m
        piles = list(done.items())
        done.clear()
        for home, pile in piles:
            if home is w:
                yield from self.keep(w, pile)
                yield from self.wake_one(w)
                continue
            for r in pile:
                yield from m.do(w.core, "turn round", frame=r)
            yield from m.do(w.core, "hand back", home=home, pool=self)
            home.letters.extend(pile)
            yield from self.wake_one(w)
