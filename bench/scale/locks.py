"""Plain threads, one a core, that ask for one lock."""

from machine import FUTEX_WAIT, FUTEX_WAKE, PAUSE, WAKE_UP, YIELD, Line


class Thread:
    def __init__(self, core):
        self.core = core
        self.node = Line(core)
        self.linked = None  # who comes next
        self.going = False
        self.asleep = False  # spins on its node, which costs nobody else anything
        self.process = None


class Lock:
    def __init__(self, m):
        self.m = m
        self.word, self.data = Line(), Line()

    def start(self, case):
        for core in range(case.cores):
            t = Thread(core)
            t.process = self.turns(case, t)
            self.m.at(self.m.random.uniform(0, case.work + 100), t.process)

    def turns(self, case, t):
        while True:
            asked = self.m.now
            yield from self.execute(t)
            case.done(asked)
            yield self.m.now + case.private_work()


class Mutex(Lock):
    """glibc: word 0 free, 1 taken, 2 taken and somebody may sleep."""

    state = 0

    def __init__(self, m):
        super().__init__(m)
        self.asleep = []

    def execute(self, t):
        m = self.m
        yield from m.do(t.core, "mutex lock", lock=self)
        if self.state == 0:
            self.state = 1
        else:
            yield from self.wait(t)
        yield from m.do(t.core, "mutex locked", lock=self)
        yield from m.do(t.core, "mutex unlock", lock=self)
        was, self.state = self.state, 0
        if was == 2:
            yield from m.wait(FUTEX_WAKE)
            if self.asleep:
                m.at(m.now + WAKE_UP, self.asleep.pop(0))

    def wait(self, t):
        while True:
            yield from self.m.do(t.core, "mutex lock", lock=self)
            was, self.state = self.state, 2
            if was == 0:
                return
            yield from self.m.wait(FUTEX_WAIT)
            if self.state == 2:
                self.asleep.append(t.process)
                yield None


class Spin(Lock):
    """tbb::spin_mutex: exchange, and 1, 2, 4, 8, 16 pauses, then sched_yield, in between."""

    taken = False

    def execute(self, t):
        m, pauses = self.m, 1
        while True:
            yield from m.do(t.core, "spin try", lock=self)
            if not self.taken:
                break
            yield m.now + (pauses * PAUSE if pauses <= 16 else YIELD)
            pauses *= 2
        self.taken = True
        yield from m.do(t.core, "spin body", lock=self)
        yield from m.do(t.core, "spin unlock", lock=self)
        m.at(m.drained[t.core], self.release())  # when the store is out

    def release(self):
        self.taken = False
        return
        yield


class Mcs(Lock):
    """tbb::queuing_mutex."""

    last = None

    def execute(self, t):
        m = self.m
        t.linked, t.going = None, False
        yield from m.do(t.core, "mcs lock", lock=self, me=t)
        before, self.last = self.last, t
        if before is not None:
            yield from m.do(t.core, "mcs link", before=before)
            m.at(m.drained[t.core], self.link(before, t))
            yield from m.do(t.core, "mcs spin", me=t)
            if not t.going:
                t.asleep = True
                yield None
            yield from m.do(t.core, "mcs spin", me=t)
        yield from m.do(t.core, "mcs body", lock=self)
        yield from m.do(t.core, "mcs unlock", me=t)
        if t.linked is None:
            yield from m.do(t.core, "mcs leave", lock=self)
            if self.last is t:
                self.last = None
                return
            while t.linked is None:
                yield m.now + PAUSE
        yield from m.do(t.core, "mcs pass", after=t.linked)
        m.at(m.drained[t.core], self.go(t.linked))

    def link(self, before, t):
        before.linked = t
        return
        yield

    def go(self, t):
        t.going = True
        if t.asleep:
            t.asleep = False
            self.m.at(self.m.now, t.process)
        return
        yield
