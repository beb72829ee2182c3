"""rule_table.py - the protocols' rules that are no memory orders, and how each is broken.

Each: file, old text (there exactly once; whole statements, or an expression), new text, what is
wrong then, the scenarios that are tried, in this order (patterns), and for one that nothing has to
catch, the reason.
"""

from dataclasses import dataclass

import survivors


@dataclass
class Rule:
    file: str
    old: str
    new: str
    what: str
    scenarios: tuple
    reason: str = ""


RING = ("ring: three*", "ring: four*", "ring: an owner*", "ring: the short*", "ring:*", "strand:*")
IN_PLACE = ("ring: two look*", "strand: three threads ask, and*", "device: a host execution and*")
CLOSE = ("ring: whoever*", "ring: only*", "strand: *close*", "strand:*")
INBOX = ("inbox:*", "ring: the short*inbox*", "ring: an owner*", "ring:*inbox*", "ring: four*")
INBOX_CLOSE = ("ring: whoever*inbox*", "ring: only*inbox*", "inbox:*")
STRAND = ("strand:*",)
ENDS = ("strand: three*", "strand: *lane*", "strand: whoever*", "strand: when*", "strand:*")
BODY = ("strand: a body*", "strand:*")
HANDLE = ("strand: a handle*",)
SCOPE = ("scope:*",)
STOPS = ("withdrawal:*", "when_any:*", "scope:*")
POOL = ("pool: one worker*", "pool: what*", "pool: *one who posts*", "pool:*")
QUEUE = ("run_queue:*", "pool:*")
FORKS = ("fork_stack:*", "pool: *fork*")
TIMER = ("timer:*", "sleep:*")
SLEEP = ("sleep: it*", "sleep:*")
LOOKING = ("looking:*",)
IN_LINE = ("withdrawal: the only one*", "withdrawal: one of three*", "withdrawal: two *line*",
           "withdrawal: *gets*", "withdrawal: * line*", "withdrawal: *goes*")
ON_LANE = ("withdrawal: *lane*", "withdrawal: *time to serve*", "withdrawal: *goes*")
ASIDE = ("withdrawal: * set aside*", "withdrawal: * woken*", "withdrawal: a section*")
TOKEN = ("token:*",)
LIMITS = ("limits:*",)
BLOCKING = ("blocking:*",)
GRAPH = ("wait graph: *two take*", "wait graph: *join*", "wait graph: the *", "wait graph: *")
MEMBER = ("wait graph: *join*", "wait graph: *work*", "wait graph: *")

RULES = []


def rules_of(file, scenarios):
    def add(what, old, new, scenarios=scenarios, reason=""):
        RULES.append(Rule(file, old, new, what, scenarios, reason))

    return add


def in_two_steps(change, begin, end):
    """An exchange as a load and a store."""
    return f"[&] {{ const auto seen_now = {begin}; {change}; return seen_now; }}(){end}"


# --- ticket_ring ----------------------------------------------------------------------------------

rule = rules_of("lib/ring/ticket_ring.cpp", RING)
PARK = "if (c.compare_exchange_strong(seen, parked, release, relaxed)) return nullptr;"
rule("parks by store", PARK, "c.store(parked, release); return nullptr;")
rule("takes over, and does not go on",
     "put(&r, mine);\n        return after_publish::take_over;", "return after_publish::nothing;")
TAKE_OVER = "c.compare_exchange_weak(seen, nothing, acquire, relaxed)"
rule("takes over without clearing the mark", TAKE_OVER, "c.load(acquire) == parked")
rule("takes over by store", TAKE_OVER, "(c.store(nothing, release), true)")
rule("publishes on top of the mark", "seen == parked", "false")
rule("does not account before it parks", "account(mine);\n    std::uintptr_t",
     "std::uintptr_t",
     reason="not needed for safety: whoever takes over accounts later")
rule("accounts after it has parked",
     "account(mine);\n    std::uintptr_t seen = nothing;\n    " + PARK,
     "std::uintptr_t seen = nothing;\n"
     "if (c.compare_exchange_strong(seen, parked, release, relaxed)) {"
     "account(mine); return nullptr; }")
rule("collects without turning the chain round", "reversed(newest)", "newest",
     reason="only speed: put finds the place in any order")
rule("collects by load and store", "from.exchange(nothing, acquire)",
     in_two_steps("from.store(nothing, relaxed)", "from.load(acquire)", ""))
rule("puts the newest first", "while (ticket_word::before(after->link()->ticket, r.ticket)) after = after->link();", "")
rule("puts all behind the last one", "ticket_word::before(last->ticket, r.ticket)", "true")
rule("puts behind the last one and does not say so", "insert(r, *last);\n      last = &r;", "insert(r, *last);")
rule("follows a request with a later ticket",
     "if (!ticket_word::before(after->ticket, r.ticket)) after = last;", "", ("ring: three late ones*",))
rule("still follows a request that is gone", "first == last", "false")
rule("takes the first in the stash whatever its ticket",
     "first != nullptr && first->ticket == mine.head", "first != nullptr")
rule("links after the push", """r.next = std::bit_cast<request*>(seen);
      if (c.compare_exchange_weak(seen, std::bit_cast<std::uintptr_t>(&r), release,  // R1
                                  relaxed)) {
        return after_publish::nothing;  // r may be gone
      }""", """const auto below = seen;
      if (c.compare_exchange_weak(seen, std::bit_cast<std::uintptr_t>(&r), release, relaxed)) {
        r.next = std::bit_cast<request*>(below);
        return after_publish::nothing;
      }""")
TAKE_OWN = "c.compare_exchange_strong(seen, nothing, acquire, relaxed)"
rule("takes its own by store", TAKE_OWN, "(c.store(nothing, release), true)", IN_PLACE)
rule("puts back without a ticket", "r.ticket = mine.head;", "", ("strand:*", "ring: an owner*"))
PUT_BACK = """if (last == nullptr) {
    r.next = &r;
    last = &r;
  } else {
    insert(r, *last);  // the first again
  }"""
rule("puts back behind the last one", PUT_BACK, PUT_BACK.replace("// the first again", "last = &r;"),
     ("ring: an owner*", "strand:*"))

rule = rules_of("include/turnstile/detail/ticket_ring.hpp", IN_PLACE)
NEXT = "ticket_word::found_one(p) && log2_cells_ != 0"
rule("takes its own where several were before it", NEXT, "log2_cells_ != 0")
rule("takes its own where all share a cell", NEXT, "ticket_word::found_one(p)")

rule = rules_of("lib/strand/section_request.cpp", ("withdrawal: who looks for its turn in place*",))
rule("goes in although it was asked to stop while it waited in place",
     "!is_stopped_here(t)", "true", ("withdrawal: who looks * is asked to stop*",))
rule("goes in although its deadline came while it waited in place",
     "has_come(asked_.deadline)", "false", ("withdrawal: who looks * has its deadline*",))

rule = rules_of("include/turnstile/detail/section_request.hpp", ("withdrawal: nobody begins*",))
rule("who came first is served, whatever its token says by then",
     "section_->is_lost() || is_stopped()", "section_->is_lost()")
rule("who came first is served, whatever the stop around it says by then",
     "arrived_ != arrival::owner || can_be_stopped(chain_)", "arrived_ != arrival::owner")

rule = rules_of("include/turnstile/detail/lock_awaiter.hpp", ("withdrawal: nobody begins*",))
rule("who found the section idle does not ask whether it is stopped by now",
     "section_->is_lost() || is_stopped_since(t)", "section_->is_lost()")

rule = rules_of("lib/strand/short_wait.cpp", IN_PLACE)
rule("goes in while the device works", "if (!has_tail_) return arrival::owner;",
     "return arrival::owner;", ("device: a host execution and*",))
rule("does not park again", "park_again();", "", ("device: a host execution and*",))

RESET_BEFORE_IDLE = ("settle has reset it before the section became idle, account before it was "
                     "parked")
rule = rules_of("include/turnstile/detail/ticket_word.hpp", RING)
rule("leave does not renew head", "mine.head = (ticket_of(p) + 1) & ticket_mask;", "",
     ("ring: the short*", "strand:*"))
LEFT = "mine.known = static_cast<std::uint32_t>((was & pending_mask) - 1);"
rule("leave does not renew unaccounted", "mine.unaccounted.store(0, relaxed);\n    " + LEFT, LEFT,
     ("ring: the short*", "ring: many*", "strand:*"), reason=RESET_BEFORE_IDLE)
rule("leave does not renew known", LEFT, "", ("ring: many*", "ring: the short*"))
rule("begin does not renew head", "mine.head = ticket_of(p);", "")
rule("begin does not renew unaccounted",
     "mine.unaccounted.store(0, relaxed);\n    mine.known = 1;", "mine.known = 1;",
     reason=RESET_BEFORE_IDLE)
rule("begin does not renew known", "mine.known = 1;", "")
rule("finish does not count the turn", "mine.head = (mine.head + 1) & ticket_mask;", "")
rule("arrive does not look at the closed bit", "(p & (pending_mask | closed_bit)) == 0",
     "(p & pending_mask) == 0", CLOSE,
     reason="the closing request is never accounted for, so a closed section is never idle")
SETTLE = """mine.unaccounted.store(0, relaxed);
    const std::uint64_t was = word_.fetch_sub(done, release);  // W1
    const auto left = static_cast<std::uint32_t>((was & pending_mask) - done);
    if (left == 0) return true;  // the last touch
    mine.known = left;
    return false;"""
RESET = "mine.unaccounted.store(0, relaxed);\n"
rule("settle resets after it has told the word", SETTLE,
     SETTLE.replace(RESET, "").replace("// W1\n", "\n" + RESET),
     ("ring: three*one cell", "strand: three*", "strand:*", "ring:*"))
rule("settle does not renew known", SETTLE, SETTLE.replace("mine.known = left;\n", "\n"), ("ring: many*", *RING))
rule("settle does not reset", SETTLE, SETTLE.replace(RESET, ""))

rule = rules_of("lib/ring/ticket_word.cpp", RING)
rule("account does not renew known",
     "mine.known = static_cast<std::uint32_t>((was & pending_mask) - done);", "")
rule("a refused arrival keeps its count",
     "word_.fetch_sub(1, relaxed);\n    return arrival::closed;", "return arrival::closed;", CLOSE,
     reason="only the count grows, until most_allowed; nobody waits for it after a close")
rule("try does not look whether the section is busy",
     "if ((p & pending_mask) != 0) return arrival::queued;", "",
     ("ring: the short*", "strand: a try*"))
CLOSE_LOOP = """do {
    if ((p & closed_bit) != 0) return arrival::closed;
  } while (!word_.compare_exchange_weak(p, p + step, acquire, relaxed));"""
rule("close leaves the closed bit out", CLOSE_LOOP,
     CLOSE_LOOP.replace("p + step", "p + (one_ticket | 1)"), CLOSE)
rule("the second close closes too", CLOSE_LOOP,
     CLOSE_LOOP.replace("if ((p & closed_bit) != 0) return arrival::closed;", "")
     .replace("p + step", "((p + (one_ticket | 1)) | closed_bit)"), CLOSE)
rule("close by store", CLOSE_LOOP,
     "if ((p & closed_bit) != 0) return arrival::closed;\nword_.store(p + step, release);", CLOSE)

# --- inbox_ring -----------------------------------------------------------------------------------

rule = rules_of("include/turnstile/detail/inbox_ring.hpp", INBOX)
rule("leave by store",
     "if (word_.compare_exchange_strong(seen, 0, release, relaxed)) return true;",
     "word_.store(0, release); return true;")
rule("puts back without a link", "r.next = mine.first;", "r.next = nullptr;",
     ("ring: an owner*", "inbox:*"))

rule = rules_of("lib/ring/inbox_ring.cpp", INBOX)
IDLE = "if (word_.compare_exchange_weak(seen, seen & ~busy, release, relaxed)) return nullptr;"
rule("idle by store", IDLE, "word_.store(seen & ~busy, release); return nullptr;")
rule("going idle drops the closed bit", IDLE, IDLE.replace("seen & ~busy", "0"), INBOX_CLOSE)
rule("collects without turning the chain round", "reversed(newest)", "newest")
rule("a push does not look at the closed bit", "(seen & closed) != 0 && !last", "false",
     INBOX_CLOSE)
rule("the closing request is refused", "(seen & closed) != 0 && !last", "(seen & closed) != 0",
     INBOX_CLOSE)
rule("takes over by store", "word_.compare_exchange_weak(seen, seen | busy, acquire, relaxed)",
     "(word_.store(seen | busy, release), true)")
rule("takes over, and does not go on", "return after_publish::take_over;",
     "return after_publish::nothing;")
rule("takes over with an old link",
     "r.next = nullptr;\n        mine.first = &r;", "mine.first = &r;")
rule("collecting drops the closed bit", "word_.fetch_and(flags, acquire)",
     "word_.fetch_and(busy, acquire)", INBOX_CLOSE)
rule("collects by load and store", "word_.fetch_and(flags, acquire) & ~flags",
     in_two_steps("word_.store(seen_now & flags, relaxed)", "word_.load(acquire)", " & ~flags"))
PUSH = """r.next = std::bit_cast<request*>(seen & ~flags);
      if (word_.compare_exchange_weak(seen, self | (seen & flags), release, relaxed)) {  // I1
        return after_publish::nothing;  // r may be gone
      }"""
rule("a push drops the closed bit", PUSH, PUSH.replace("(seen & flags)", "busy"), INBOX_CLOSE)
rule("links after the push", PUSH, """const auto below = seen;
      if (word_.compare_exchange_weak(seen, self | (seen & flags), release, relaxed)) {
        r.next = std::bit_cast<request*>(below & ~flags);
        return after_publish::nothing;
      }""")

# --- the strand -----------------------------------------------------------------------------------

rule = rules_of("lib/strand/section_core.cpp", ENDS)
FLUSHED = "ring_.account(mine_);\n      done.flush();"
rule("does not account before a body that may wait", FLUSHED, "done.flush();",
     reason="not needed for safety, it keeps the high-water mark true (models: ticket_ring)")
rule("hands back nothing before a body that may wait", FLUSHED, "ring_.account(mine_);", BODY,
     reason="only later: whoever serves hands its own batch back when the body is suspended")
rule("a suspended body gives the section up", "r->start(*r)",
     "[&] { const outcome o = r->start(*r);\n"
     "return o == outcome::suspended ? outcome::finished : o; }()", BODY)
OWN = "if (&r == own) {\n    done.keep_own(r);\n  } else {\n    done.add(r);\n  }"
rule("hands its own request back too", OWN, "if (&r == own) done.keep_own(r);\ndone.add(r);")
rule("neither hands its own request back nor tells", OWN, "if (&r != own) done.add(r);")
NEXT = "r = next_after(what, done);"
rule("resumes before it has accounted", NEXT, "done.deliver();\n" + NEXT)
PASS = ("pass_to_executor(*r,\n                       done);  // before what is handed back here: "
        "others may take that and overlap\n")
PASS_ON = f"if (go == budget::verdict::pass_on) {{\n      {PASS}      break;\n    }}"
rule("goes on after it has passed the section on", PASS + "      break;", "pass_to_executor(*r, done);",
     ("strand: the time*", "strand:*"))
rule("resumes here before it has passed the section on", PASS, "done.deliver();\n" + PASS,
     ("strand: the time*", "strand:*"),
     reason="another request is pending, so the section stays; it only serves the others later")
rule("does not account before it passes the section on",
     "ring_.account(mine_);\n    " + PASS_ON, PASS_ON,
     ("strand: the time*", "strand:*"),
     reason="not needed for safety, it keeps the high-water mark true (models: ticket_ring)")
rule = rules_of("lib/strand/closing.cpp", ENDS)
rule("close is done before what came before is handed back",
     "done.deliver();\n  if (limited() && !refuse_outside()) return;  // this may be gone\n"
     "  finish_close(way_back::at_home);",
     "finish_close(way_back::at_home);\n  done.deliver();",
     ("strand: *clos*", "strand:*"), reason="model close, ablation DELIVER_LATE")
rule("resumes within the closing call",
     "if (here().bounce == nullptr) after.emplace();", "", ("strand: *clos*", "strand:*"),
     reason="only for coroutines without executor that block their thread until the end")
rule("reads the next closer after this one goes on",
     """stand_in& s = *std::exchange(still_there, still_there->younger);  // s may be gone after this
    request& who = s.behind();
    if (s.take()) {
      if (of_closers == way_back::at_home) {
        resume_at_home(who);
      } else {
        batch::post_back(who);
      }
      continue;
    }
    s.pass_over();
    if (s.unpin()) batch::post_back(who);""",
     """stand_in& s = *still_there;
    request& who = s.behind();
    if (s.take()) {
      if (of_closers == way_back::at_home) {
        resume_at_home(who);
      } else {
        batch::post_back(who);
      }
      still_there = s.younger;
      continue;
    }
    still_there = s.younger;
    s.pass_over();
    if (s.unpin()) batch::post_back(who);""",
     ("strand: *clos*",))
rule("a close is not left to who lets in",
     "if (limited() && !refuse_outside()) return;",
     "if (limited()) static_cast<void>(refuse_outside());",
     ("limits: who has closed*",))
rule("takes the closers by load and store", "list.exchange(closed_list, acq_rel)",
     in_two_steps("list.store(closed_list, release)", "list.load(acquire)", ""),
     ("strand: *clos*",))
rule("does not say that it is closed", "list.exchange(closed_list, acq_rel)",
     "list.exchange(nullptr, acq_rel)", ("strand: *clos*",))
rule("a closer is added to a closed section", "if (seen == closed_list) return false;",
     "if (seen == closed_list) seen = nullptr;", ("strand: *clos*",))
ADD = "list.compare_exchange_weak(seen, &s, release, acquire)"
rule("a closer is added by store", ADD, "(list.store(&s, release), true)", ("strand: *clos*",))

rule = rules_of("lib/strand/section_core.cpp", ENDS)
POST = "ring_.put_back(*next, mine_);\n      return post(to, *this, where);"
rule("does not put back what it passes on", POST, "return post(to, *this, where);")
rule("puts back after it has passed the section on", POST,
     "post(to, *this, where);\nreturn ring_.put_back(*next, mine_);")
rule("serves a bound section elsewhere when it takes over",
     "is_elsewhere_for(*next) || (next != &r && belongs_elsewhere(*next, done))",
     "next != &r && belongs_elsewhere(*next, done)",
     ("strand: *bound*", "strand: the time*"))
rule("goes on with a bound section elsewhere", """if (is_elsewhere_for(r)) {
    pass_to_executor(r, done);
  } else if (belongs_elsewhere(r, done)) {
    pass_to_executor(r, done, queued::next);
  } else {
    serve(&r, nullptr, done, budget::callers);
  }""", "serve(&r, nullptr, done, budget::callers);", ("strand: *bound*", "strand: the time*"))
rule("serves on top of what it holds who blocks for that",
     "suspended<request>::thread_behind(behind(r)) != nullptr", "false",
     ("blocking: *inside*",))
rule("a thread that is given a section passes on its own request",
     "return t != nullptr && t == here().in_line;", "return false;",
     ("blocking: it is next*", "blocking: who has served enough*", "blocking: *inside*"))
ENDED = "done.add(r);\n  go_on(next_after_body(done), done);"
SENT = "batch::send_one(r, this_pace.look_seldom());"
rule("accounts when a guard was handed over already", SENT, SENT + "\nring_.account(mine_);",
     ("strand: a guard*",))
rule("a body that has ended is not counted", ENDED, "done.add(r);\ngo_on(next_awaited(), done);",
     BODY)
rule("resumes a waiting body's chain before it has accounted", ENDED,
     "done.add(r);\ndone.deliver();\ngo_on(next_after_body(done), done);", BODY)
rule("a post that takes over does not go on",
     "if (what == after_publish::take_over) send_next();", "",
     ("strand: *handle*", "strand: *posted*", "withdrawal: two get into line*", "strand:*"))
rule("leaves, and does not serve who came meanwhile",
     "serve_or_pass(r, done, budget::callers);", "")

rule = rules_of("lib/strand/extras.hpp", LOOKING)
rule("what a section needs late is put in place by store",
     "word.compare_exchange_strong(known, fresh.get(), release, acquire)",
     "(word.store(fresh.get(), release), true)", LOOKING)

rule = rules_of("lib/strand/batch.hpp", ENDS)
rule("reads the link after the job has run",
     "while (job* const j = homeless_.pop()) job_access::work_here(*j);",
     "while (job* const j = homeless_.front()) {\njob_access::work_here(*j);\nhomeless_.pop();\n}")
SEND = """while (used_ != 0) {
      const pile oldest = piles_[0];
      --used_;
      for (std::size_t i = 0; i != used_; ++i) piles_[i] = piles_[i + 1];
      send(oldest);
    }"""
rule("hands a pile back twice", SEND, "for (std::size_t i = 0; i != used_; ++i) send(piles_[i]);",
     ("strand: results*", "strand:*"))
DELIVER = """if (has_entered() || !homeless_.empty()) {
      off_this_stack([this] { deliver_here(); });
    }"""
rule("deliver leaves the piles", "flush();\n    " + DELIVER, DELIVER, ("strand: results*", "strand:*"))

rule = rules_of("include/turnstile/detail/close_awaiter.hpp", ("strand: *clos*",))
rule("the first closer is added after its request is in line",
     "section.add_closer(s);\n        section.publish_closing(line);",
     "section.publish_closing(line);\nsection.add_closer(s);")
rule("the first closer is added after its request is served",
     "section.add_closer(s);\n    section.serve_closing(line);",
     "section.serve_closing(line);\nsection.add_closer(s);")

rule = rules_of("include/turnstile/detail/body.hpp", BODY)
rule("start looks, then stores", "phase_.exchange(returned_from, acq_rel)",
     in_two_steps("phase_.store(returned_from, release)", "phase_.load(acquire)", ""))
END = "w.phase_.exchange(ended, acq_rel) == returned_from"
rule("a body's end looks, then stores", END,
     in_two_steps("w.phase_.store(ended, release)", "w.phase_.load(acquire)", " == returned_from"))
rule("an end elsewhere is taken for one within start", "w.phase_.load(relaxed) == thread_number()",
     "w.phase_.load(relaxed) != returned_from")
rule("both go on with the section", END, "(w.phase_.exchange(ended, acq_rel), true)")
rule("nobody goes on with the section", END, "(w.phase_.exchange(ended, acq_rel), false)")

# --- requests that are withdrawn ------------------------------------------------------------------

rule = rules_of("lib/strand/stand_in.cpp", IN_LINE)
TAKE = """do {
    if ((seen & asked_bits) != 0) return false;
  } while (!change(seen, (seen - one_pin) | taken | section_done));"""
LOOKED = "if ((seen & asked_bits) != 0) return false;"
rule("it runs although it was asked to go", TAKE, TAKE.replace(LOOKED, ""),
     ("withdrawal: it is asked to go, and*", *IN_LINE))
rule("taken by store", TAKE,
     LOOKED + "\nword_.store((seen - one_pin) | taken | section_done, release);")
ASK = """do {
    if ((seen & (taken | withdrawn | asked_bits)) != 0) return;
    to = seen | static_cast<std::uint32_t>(why);
    if (seen / one_pin == 0) to = (to | withdrawn) & ~posted;
  } while (!change(seen, to));"""
rule("asked to go by store", ASK, ASK.replace("do {", "").replace(
    "} while (!change(seen, to));", "word_.store(to, release);"))
rule("asked to go although it runs", ASK, ASK.replace("taken | withdrawn", "withdrawn"))
rule("the reason is written over", ASK, ASK.replace(" | asked_bits)", ")"),
     ("withdrawal: a token and*", *IN_LINE))
rule("withdrawn though it is pinned", ASK, ASK.replace("seen / one_pin == 0", "true"))
rule("brought back before the section is left",
     "end(seen);\n  batch::post_back(*who_);", "batch::post_back(*who_);\nend(seen);", ON_LANE)
UNPIN = """ends = to / one_pin == 0 && (seen & asked_bits) != 0 && (seen & (taken | withdrawn)) == 0;"""
rule("the last pin is given up, and nobody withdraws", UNPIN, "ends = false;")
rule("any pin that is given up withdraws", UNPIN, UNPIN.replace("to / one_pin == 0 && ", ""))
rule("who gives up the last pin frees nothing", "if (nobody_needs(to)) give_up();", "")
rule("who is done last frees nothing", "if (nobody_needs(seen | bit)) give_up();", "")
rule("a withdrawn one is pinned", """do {
    if ((seen & withdrawn) != 0) return false;
  } while (!change(seen, seen + one_pin));""", "while (!change(seen, seen + one_pin)) {\n}")
rule("withdrawing what was posted leaves the section owned",
     "if ((was & posted) != 0) section_->go_past_withdrawn();", "", ON_LANE)
POST = """do {
    if ((seen & asked_bits) != 0) return false;
  } while (!change(seen, seen | posted));"""
rule("it is posted although it was asked to go", POST, POST.replace(LOOKED, ""), ON_LANE,
     reason="its job finds that out, or whoever unpins it withdraws it then")
GIVEN = "detail::post(to, *this, where);  // still pinned\n  if (unpin()) batch::post_back(*who_);"
rule("unpinned before the executor has it", GIVEN,
     "if (unpin()) {\nbatch::post_back(*who_);\n}\ndetail::post(to, *this, where);",
     ("withdrawal: who is back*", *ON_LANE))
AGAIN = """do {
    if ((seen & withdrawn) != 0) {
      add(section_done);
      return false;
    }
  } while (!change(seen, (seen & ~posted) + one_pin));"""
rule("the job runs what was withdrawn", AGAIN,
     "while (!change(seen, (seen & ~posted) + one_pin)) {\n}", ON_LANE)
rule("the job of a withdrawn one does not say that it ran", AGAIN,
     AGAIN.replace("add(section_done);", ""), ON_LANE)
rule("the job does not pin it", AGAIN, AGAIN.replace(" + one_pin", ""), ON_LANE)
rule("the job leaves it posted", AGAIN, AGAIN.replace("(seen & ~posted)", "seen"), ON_LANE)
rule("one that did not run is not told that it is out of the line",
     "self.pass_over();", "")
rule("a token's callback outlives the wait", "own_.reset();", "",
     reason="it comes too late to do anything, and whoever frees the stand-in waits for it")
rule("a deadline outlives the wait", "alarm_->cancel();\n    alarm_.reset();", "",
     ("withdrawal: a deadline*", "withdrawal: a token and*"))

rule = rules_of("lib/strand/section_core.cpp", IN_LINE)
NEXT = """    section_ring::finish(mine_);
    r = ring_.next(mine_);"""
rule("a withdrawn one ends the line", NEXT, "r = nullptr;")
rule("a withdrawn one is not told that it is out of the line", "s.pass_over();\n  return false;",
     "return false;")
rule("one that did not run is brought back before the section is left",
     "done.add_pinned(stand_in::of(*r));",
     "if (stand_in::of(*r).unpin()) batch::post_back(*ends);", (*IN_LINE, *ASIDE))
rule("one that is set aside is unpinned before the section is left",
     "done.add_set_aside(*youngest_aside());",
     "if (stand_in& s = *youngest_aside(); s.unpin()) batch::post_back(s.behind());",
     ("withdrawal: on a lane, it is set*", *ASIDE))
rule("who withdraws what was posted forgets the line",
     "if (request* const next = finish_and_next()) pass_to_executor(*next, done);",
     "static_cast<void>(finish_and_next());", ON_LANE)
rule("the place of what was posted is not counted as done",
     "if (request* const next = finish_and_next()) pass_to_executor(*next, done);",
     "if (request* const next = next_awaited()) pass_to_executor(*next, done);", ON_LANE)
LOOK = """if (has_aside_) [[unlikely]] {
    if (bound_elsewhere() || here().changes_a_variable() || done.keeps_off()) {
      if (ask_on_executor(done)) return nullptr;
    } else if (stand_in* const s = wake_aside(done)) {
      return s;
    }
  }
  return finish_and_next();"""
ASIDE_ON_LANE = ("withdrawal: on a lane, a hold ends elsewhere*",)
rule("predicates of a bound section are asked where a hold of it has ended", LOOK,
     """if (has_aside_) {
    if (stand_in* const s = wake_aside(done)) return s;
  }
  return finish_and_next();""", ASIDE_ON_LANE)
rule("nobody looks at those set aside", LOOK, "return finish_and_next();", ASIDE)
rule("who runs in the place of another one is not the last there", LOOK,
     LOOK.replace("return finish_and_next();", "return next_awaited();")
         .replace("if (has", "finish_place();\nif (has"), ASIDE)
AFTER = "return what == outcome::set_aside ? finish_and_next() : next_after_body(done);"
rule("the one that could run goes, and those behind it are forgotten", AFTER,
     AFTER.replace("set_aside", "set_aside || what == outcome::withdrawn"),
     ("withdrawal: two are set*", *ASIDE))
PASSED = """if (awake) {
      next = next_after_body(done);
    } else {
      next = finish_and_next();
    }"""
rule("the same when it is passed on", PASSED, "next = finish_and_next();",
     ("withdrawal: *woken*", *ASIDE))
rule("who withdraws asks predicates", PASSED, "next = next_after_body(done);",
     ("withdrawal: *no predicate",),
     reason="of a bound section they are asked on its executor by now, and of others no scenario passes on a line")

rule = rules_of("lib/strand/section_state.cpp", ASIDE)
rule("withdrawn ones stay among those set aside when the section ends",
     "if (has_aside_) forget_aside();", "", ("withdrawal: a section ends*", *ASIDE))

rule = rules_of("lib/strand/section_state.cpp", ("device: a section ends while*",))
rule("a section that ends may be told that its device is lost", "all->section_ends();", "")

TOUCH = ("claims: a section ends while who*", "claims: a section ends while what has a copy*")
rule = rules_of("lib/strand/section_state.cpp", TOUCH)
rule("a section ends while somebody touches what it held",
     "if (has_counted_frames_.load(relaxed)) wait_for_touches();", "")

rule = rules_of("lib/registry/claims.cpp", TOUCH)
rule("a section that may be gone is asked without the lock", "!is_hold(&f)", "true")

rule = rules_of("lib/registry/chain.cpp", TOUCH)
rule("a section is not told of a guard's frame", "s.note_counted_frame();", "")
rule("a section is not told of a copy",
     "if (f.section != nullptr) f.section->note_counted_frame();", "")

rule = rules_of("lib/strand/closing.cpp", ASIDE)
rule("closing forgets those set aside", "if (has_aside_) close_aside(done);", "",
     ("withdrawal: a section closes*",))

rule = rules_of("lib/strand/aside.cpp", ASIDE)
rule("asks the predicate of one that is not pinned", "!s->pin()",
     "(static_cast<void>(s->may_run()), !s->pin())")
rule("what is withdrawn stays set aside", "take_from_aside(*s);\n      s->pass_over();",
     "s->pass_over();")
rule("what is withdrawn is not told that nobody looks at it any more",
     "take_from_aside(*s);\n      s->pass_over();", "take_from_aside(*s);")
rule("what is woken stays set aside",
     "take_from_aside(*s);\n      s->stands = stand_in::position::neither;",
     "s->stands = stand_in::position::neither;")
rule("what is woken is asked again", "s->is_awake = true;", "")
rule("the look that withdraws one forgets it", "done.add(s->behind());", "")
rule("who withdraws the one that is to be asked there forgets the others",
     "return ask_on_executor(done);", "return false;", ASIDE_ON_LANE)
rule("the one that is asked there is unpinned at once", "done.add_asked(s);",
     "if (s.unpin()) done.add(s.behind());", ASIDE_ON_LANE)
rule("who withdraws the one that is to be asked there passes it over, and its job is to come",
     "e.asks_there = false;\n  take_from_aside(*e.oldest_aside);", "e.asks_there = false;",
     ASIDE_ON_LANE)

rule = rules_of("lib/strand/batch.hpp", ASIDE)
rule("those that may be unpinned are not",
     "unpin();\n    " + SEND, SEND)
rule("reads the link of one set aside after it is unpinned",
     "set_aside_ = s.next_unpinned;\n      unpin(s);", "unpin(s);\nset_aside_ = s.next_unpinned;")
rule("one link for two owners", "s.next_unpinned = set_aside_;\n    set_aside_ = &s;",
     "pinned_.push(s);", ("withdrawal: it is set aside by*", *ASIDE))

rule = rules_of("lib/strand/admission.cpp", IN_LINE)
PUBLISH = """switch (arrived) {
    case arrival::owner: post_first(line, s); break;
    case arrival::queued:
      if (publish_only(s, line) != published::closed) break;
      [[fallthrough]];
    default: s.close_outside();
  }
"""
rule("who gets into line has no pin", PUBLISH + "  return !s.unpin();",
     "const bool gone = s.unpin();\n" + PUBLISH + "  return !gone;")

rule = rules_of("lib/strand/gate.cpp", LIMITS)
rule("who has gone is let in", "s.pin()", "(static_cast<void>(s.pin()), true)")
rule("who is let in takes no room", "s.stands = stand_in::position::line;\n      inside_ = inside_ + 1;",
     "s.stands = stand_in::position::line;")
rule("who closes refuses nobody who is outside",
     "if (left) return nullptr;\n  is_letting_in_ = true;\n  return take_next();", "return nullptr;")

rule = rules_of("lib/strand/gate.hpp", LIMITS)
rule("whoever comes overtakes those outside", "has_room() && outside_.empty() && !is_letting_in_",
     "has_room()")
rule("more may wait than are allowed", "inside_ - 1 + aside_ < most_", "true")

rule = rules_of("lib/strand/section_core.cpp", LIMITS)
rule("the place of one that was withdrawn frees its room twice",
     "section_ring::finish(mine_);\n    r = ring_.next(mine_);",
     "finish_place();\n    r = ring_.next(mine_);")

rule = rules_of("lib/strand/admission.cpp", LIMITS)
rule("who has left lets nobody in", "limit()->leave();\n  stand_in::let_in(*limit());",
     "limit()->leave();")

rule = rules_of("lib/strand/stand_in.cpp", LIMITS)
rule("a close that was left to who lets in is never done",
     "if (closes) section->finish_close(section_core::way_back::posted);",
     "static_cast<void>(closes);", ("limits: who has closed*",))
rule("one that is withdrawn in line keeps its room",
     "if (stands == position::line) g->leave();", "")

rule = rules_of("lib/strand/several.cpp", ("withdrawal: who waits for two*", "withdrawal: who has one*"))
rule("who has got a section keeps its stand-in", "take_wait_back();\n  drop_stand_in();",
     "take_wait_back();")
rule("what it held is not left", "batch done;\n  self.leave(done);\n  done.deliver();",
     "batch done;\nself.hand_back(done);\ndone.deliver();")
rule("who has entered one goes on when all that is left has been served here",
     "elsewhere || done.has_entered()", "elsewhere", ("blocking: who has entered*",))

rule = rules_of("lib/base/kept_token.cpp", TOKEN)
rule("a thread's end frees no token", "if (was == uses * one_elsewhere) delete &p;", "")
LAST = "if (p.elsewhere.fetch_add(one_elsewhere, acq_rel) == closed - one_elsewhere) delete &p;"
rule("who gives back the last reference frees no token", LAST,
     "p.elsewhere.fetch_add(one_elsewhere, acq_rel);")
rule("another token comes while somebody refers to the old one",
     "kept != nullptr && is_free(*kept)", "kept != nullptr")
rule("a token that was set apart is freed while somebody refers to it", "is_free(one)", "true")
rule("a thread's end forgets its token", "close(*kept);", "static_cast<void>(kept);")
rule("a thread's end forgets what was set apart",
     "while (last_apart != nullptr) close(take_first(last_apart));", "static_cast<void>(last_apart);")
rule("a thread gives back what was set apart as others do",
     "p.thread == here().number && p.thread != 0", "false",
     reason="it only costs: both sides of the balance go up by as much")

# --- results and waits ----------------------------------------------------------------------------

rule = rules_of("include/turnstile/detail/submitted.hpp", HANDLE)
rule("the waiter is known after the word says so", """state_->waiter_ = this;
    std::uint8_t was = submitted_result<R>::running;
    if (state_->word_.compare_exchange_strong(was, submitted_result<R>::awaited_by, release,  // H2
                                              acquire)) {
      return !stop.stop_possible() || listen(stop, &take_back);  // this may be gone
    }""", """std::uint8_t was = submitted_result<R>::running;
    if (state_->word_.compare_exchange_strong(was, submitted_result<R>::awaited_by, release,
                                              acquire)) {
      state_->waiter_ = this;
      return !stop.stop_possible() || listen(stop, &take_back);
    }""")
rule("an end does not free what was dropped",
     "switch (word_.exchange(ended, acq_rel)) {  // H1, H2\n"
     "      case awaited_by:\n        waiter_->resume();  // this may be gone\n        break;\n"
     "      case dropped: free(); break;\n      default: break;  // this may be gone\n    }",
     "if (word_.exchange(ended, acq_rel) == awaited_by) waiter_->resume();")
DROP = """switch (word_.exchange(dropped, acq_rel)) {
      case ended: free(); break;  // H1
      case awaited_by: misused("an execution_handle is destroyed while it is awaited");
      default: break;
    }"""
rule("a drop does not free what has ended", DROP, "word_.exchange(dropped, acq_rel);")
rule("a drop looks, then stores", DROP,
     "if (word_.load(acquire) == ended) { free(); } else { word_.store(dropped, release); }")

rule = rules_of("lib/resume/scope_core.cpp", SCOPE)
rule("no second look at running", "if (!told_any) return idle();", "if (!told_any) return true;")
rule("no look after the push", "wake_if_idle();\n  drop_share();", "drop_share();")
LISTED = """shares_.fetch_add(1, relaxed);  // j may be resumed, and end the scope, before we have looked
  {
    const std::lock_guard lock(joining_);
    j.listed_ = true;
    j.next_joiner_ = joiners_;
    if (joiners_ != nullptr) joiners_->previous_joiner_ = &j;
    joiners_ = &j;
  }
  wake_if_idle();
  drop_share();"""
rule("a wait has no share", LISTED, LISTED[LISTED.index("{"):].replace("drop_share();", ""))
rule("work drops its share before its last look",
     "if (running_.fetch_sub(1, release) == 1) wake_if_idle();  // J1, J2\n  drop_share();",
     "const bool last = running_.fetch_sub(1, release) == 1;\ndrop_share();\n"
     "if (last) wake_if_idle();")
ERROR = """if (error != nullptr) {
    failure& first = is_cancellation(error) ? first_cancellation_ : first_failure_;
    const bool is_first = note(first, {std::move(error), where, stop_.stop_requested()});
    if (is_first && on_failure_ == on_failure::stop) request_stop();
  }
"""
LAST = "  if (running_.fetch_sub(1, release) == 1) wake_if_idle();"
rule("work counts as ended before its error is noted", ERROR + LAST,
     "const bool last = running_.fetch_sub(1, release) == 1;\n" + ERROR
     + "if (last) wake_if_idle();")
rule("reads the next joiner after this one is resumed",
     "join_awaiter* const next = j->next_joiner_;\n    j->wait_ended();  // j may be gone\n"
     "    j = next;", "j->wait_ended();\nj = j->next_joiner_;")
rule("a cancellation hides what caused it", "is_cancellation(error) ? first_cancellation_ : first_failure_",
     "(static_cast<void>(first_cancellation_), first_failure_)", STOPS)
rule("an error stops nobody",
     "is_first && on_failure_ == on_failure::stop", "is_first && false", STOPS)
rule("who leaves does not look whether it is in the list", "if (!j.listed_) return false;", "", STOPS)
LEAVES = "(j.previous_joiner_ != nullptr ? j.previous_joiner_->next_joiner_ : joiners_) = j.next_joiner_;"
rule("who leaves stays in the list", LEAVES, "", STOPS)
rule("joiners are still in the list when it is taken",
     "for (join_awaiter* j = joiners_; j != nullptr; j = j->next_joiner_) j->listed_ = false;", "",
     STOPS)

rule = rules_of("include/turnstile/detail/stoppable_wait.hpp", STOPS)
rule("whoever ends a wait goes on with it", "if (is_second()) resume_at_home(*this);",
     "is_second();\nresume_at_home(*this);")
rule("await_suspend leaves it to the others", "if (!is_second()) return true;",
     "is_second();\nreturn true;")
rule("await_suspend goes on whoever comes first", "if (!is_second()) return true;",
     "is_second();")
rule("a stop does not ask whose the wait is", "if (take_back(*wait)) wait->withdraw();",
     "take_back(*wait);\nwait->withdraw();")
rule("the first one looks, then stores", "word_.exchange(one, acq_rel) == one",
     in_two_steps("word_.store(one, release)", "word_.load(acquire)", " == one"))
rule("the coroutine goes on while its callback is called", "listener_.reset();", "")

rule = rules_of("lib/resume/stoppable_wait.cpp", STOPS)
rule("a stop goes on with it whoever comes first", "if (!is_second()) return;", "is_second();")
rule("a withdrawn wait does not say so", "withdrawn_ = true;", "")

rule = rules_of("include/turnstile/detail/submitted.hpp", ("withdrawal: the wait for a handle*",))
TAKE_BACK = """if (!self.state_->word_.compare_exchange_strong(was, submitted_result<R>::running, relaxed,
                                                    relaxed)) {  // H2
      return false;
    }"""
rule("a wait for a handle is taken back by store", TAKE_BACK,
     "self.state_->word_.store(submitted_result<R>::running, relaxed);")

rule = rules_of("include/turnstile/when_any.hpp", ("when_any:*",))
rule("whoever ends first decides, cancelled or not", "is_cancellation(error) ? cancelled_ : decided_",
     "(static_cast<void>(cancelled_), decided_)")
rule("the last one decides", "first.compare_exchange_strong(none, which, relaxed, relaxed);",
     "first.store(which, relaxed);")
rule("the others are not stopped", "below_.request_stop();", "")

rule = rules_of("include/turnstile/detail/stop_region.hpp", ("when_any:*",))
rule("a stop of the surroundings is not passed on",
     "if (surroundings_.stop_possible()) passed_on_.emplace(surroundings_, pass_on{this});", "")

rule = rules_of("include/turnstile/timeout.hpp", ("timeout:*",))
rule("a timeout goes on without its timer", "static_cast<void>(cancel());\n    below_.leave();",
     "below_.leave();")

rule = rules_of("include/turnstile/detail/child.hpp", ("when_all:*",))
rule("one that is not waited for", "left_.store(children, relaxed);",
     "left_.store(children - 1, relaxed);")
ARRIVE = "if (left_.load(acquire) != 1 && left_.fetch_sub(1, acq_rel) != 1) return {};"
rule("whoever does not come last looks again", ARRIVE,
     "left_.fetch_sub(1, acq_rel);\nif (left_.load(acquire) != 0) return {};")
rule("counts by load and store", ARRIVE,
     "const auto seen_now = left_.load(acquire);\nleft_.store(seen_now - 1, release);\n"
     "if (seen_now != 1) return {};")

rule = rules_of("include/turnstile/sync_wait.hpp", ("strand: *lane*", "strand:*"))
rule("the end does not notify", "word.exchange(over, seq_cst) == parked",
     "(word.exchange(over, seq_cst), false)")
rule("blocks without saying so", "word_.compare_exchange_strong(running, parked, relaxed, relaxed);",
     "word_.wait(running, relaxed);")

rule = rules_of("include/turnstile/detail/blocked_thread.hpp", BLOCKING)
rule("a parked thread is told and not woken",
     "if ((word.fetch_add(done, seq_cst) & parked) != 0) word.notify_one();",
     "word.fetch_add(done, seq_cst);")

rule = rules_of("lib/strand/blocked_thread.cpp", BLOCKING)
rule("parks by store", "word_.compare_exchange_strong(nothing, parked, relaxed, relaxed);",
     "word_.store(parked, relaxed); static_cast<void>(nothing);")
rule("a parked thread is given the section and not woken",
     "if ((seen & parked) != 0) word.notify_one();", "static_cast<void>(seen);")
rule("a thread that is given the section does not serve",
     "if ((await_word() & has_job) == 0) return;\n    run_job();",
     "static_cast<void>(await_word());\n    return;")
rule("a thread that blocks for something else keeps the section",
     "  blocked_thread::go_away_all();\n", "")
rule("a thread that blocks for something else is given the section",
     "if ((seen & away) != 0) return false;", "")
rule("a thread that waits again is still away",
     "if ((word_.load(relaxed) & away) != 0) word_.fetch_and(~away, relaxed);", "")
rule("who withdraws its own request forgets the section that it was given",
     "if ((word_.load(relaxed) & has_job) != 0) run_job();", "")
rule("who takes the section forgets that it is done with", "word_.fetch_and(done, relaxed);",
     "word_.store(0, relaxed);")

# --- the pool -------------------------------------------------------------------------------------

rule = rules_of("lib/executor/sleepers.hpp", POOL)
rule("gets up without its token", "sleep();", "")
rule("wakes without a token", "tokens_.fetch_add(1, seq_cst);", "")
rule("wakes without a notification", "tokens_.notify_one();", "")
rule("wakes while somebody searches", "sleeping(seen) != 0 && searching(seen) == 0",
     "sleeping(seen) != 0",
     reason="only costs: a worker more looks round")
rule("does not know that it was the last one searching",
     "searching(word_.fetch_sub(one_searching, seq_cst)) == 1",
     "(word_.fetch_sub(one_searching, seq_cst), false)", ("pool: of two jobs that come*", *POOL))
rule("the end is declared by an old count", "word_.fetch_add(0, release) == n * one_sleeping",
     "word_.load(relaxed) == n * one_sleeping", ("sleepers:*", *POOL))
rule("who searches counts as lying", "word_.fetch_add(0, release) == n * one_sleeping",
     "sleeping(word_.fetch_add(0, release)) == n",
     reason="the same: a worker counts once, so where all n lie none searches")
END = "tokens_.store(for_everybody, seq_cst);\n    tokens_.notify_all();"
rule("the end is there and nobody is woken", END, END.split("\n")[0])
rule("the end wakes one", END, END.replace("all()", "one()"))
rule("the end is said after waking", END,
     "tokens_.notify_all();\ntokens_.store(for_everybody, seq_cst);")
rule("the end wakes only those who lie", "tokens_.store(for_everybody, seq_cst)",
     "tokens_.store(sleeping(word_.load(relaxed)), seq_cst)")

rule = rules_of("lib/executor/thread_pool.cpp", POOL)
rule("a worker's post wakes nobody",
     "here().as_worker->keep(first, last, n, sleepers_);\n      sleepers_.wake_one();",
     "here().as_worker->keep(first, last, n, sleepers_);")
rule("handing back wakes nobody", "to.mail.push(first, last);\n    sleepers_.wake_one();",
     "to.mail.push(first, last);")
rule("the end wakes nobody", "stopping_.store(true, seq_cst);\n    sleepers_.wake_one();",
     "stopping_.store(true, seq_cst);")
rule("the end wakes before it says so",
     "stopping_.store(true, seq_cst);\n    sleepers_.wake_one();",
     "sleepers_.wake_one();\nstopping_.store(true, seq_cst);")
MOVE = ("w.queue.append(taken.first->next, static_cast<std::uint32_t>(taken.n - 1));\n"
        "      sleepers_.wake_one();")
rule("jobs are moved and nobody is woken", MOVE, MOVE.split("\n")[0],
     reason="model parking, ablation NO_WAKE_AFTER_MOVE")
rule("mail is moved and nobody is woken", "if (mail.n > 1) sleepers_.wake_one();", "")
rule("who stands still keeps what waits there",
     "even_out(w, workers_, w.looks.last(), sleepers_);", "", ("pool: a job posts two*",))
rule("the last one searching does not look",
     "if (sleepers_.found() && anything_to_do()) sleepers_.wake_one();",
     "static_cast<void>(sleepers_.found());", ("pool: of two jobs that come*", *POOL))
STOP = """const bool stopping = stopping_.load(seq_cst);  \
// before the look: nobody else posts any more
      if (anything_to_do()) {
        sleepers_.get_up();
      } else if (stopping && sleepers_.all_lie(started_.load(relaxed))) {
        sleepers_.end();  // nobody runs a job that could post another one
      } else {
        sleepers_.sleep();
      }"""
rule("reads stopping after the look", STOP,
     STOP.replace(STOP.split("\n")[0], "").replace("stopping &&", "stopping_.load(seq_cst) &&"),
     reason="model parking, ablation STOP_READ_LATE with COUNT_EARLY")
rule("no look after it lay down", STOP, STOP.replace("anything_to_do()", "false"))
rule("ends though others do not lie", STOP,
     STOP.replace("stopping && sleepers_.all_lie(started_.load(relaxed))", "stopping"),
     ("pool: the end comes*", *POOL))
FORK = "if (rest != 0) w.keep(first, last, rest, sleepers_);"
rule("a fork wakes nobody", FORK + "\n    sleepers_.wake_one();", FORK, FORKS)
rule("nobody takes others' forks", "if (job* const j = victim.forks.steal()) return j;", "", FORKS)
rule("a fork that there is no room for is lost", FORK, "static_cast<void>(rest);",
     FORKS)

rule = rules_of("lib/executor/worker.hpp", POOL)
rule("more is kept than fits", "overflow.size() == 0 && n <= queue.room()", "overflow.size() == 0",
     ("pool: a job posts more*", *POOL))
rule("more is kept ahead of what does not fit", "overflow.size() == 0 && n <= queue.room()",
     "n <= queue.room()", reason="only the order of a worker's own jobs, which is not promised")
rule("who lies down does not look at forks", "forks.looks_empty()", "true", FORKS)

rule = rules_of("lib/executor/even_out.cpp", ("evening out:*", *POOL))
rule("jobs are moved to a worker that has some, and nobody is woken",
     "w.queue.take_from(from.queue, static_cast<std::uint32_t>(n));\n    idle.wake_one();",
     "w.queue.take_from(from.queue, static_cast<std::uint32_t>(n));")
rule("mail or what did not fit is moved to a worker that has jobs, and nobody is woken",
     "w.keep(moved.first, moved.last, moved.n, idle);\n  idle.wake_one();",
     "w.keep(moved.first, moved.last, moved.n, idle);")

rule = rules_of("lib/executor/injector.hpp", POOL)
SAY = "size_.store(size_.load(relaxed) + n, seq_cst);  // Q3\n    idle.wake_one();"
rule("wakes before it says that there is a job", SAY,
     "idle.wake_one();\nsize_.store(size_.load(relaxed) + n, seq_cst);")
rule("wakes nobody", SAY, "size_.store(size_.load(relaxed) + n, seq_cst);")
PUT = """const std::lock_guard lock(mutex_);
    if (is_closed_) return false;
    jobs_.append(*first, *last);
    """
rule("wakes after it has unlocked", PUT + SAY,
     "{ " + PUT + SAY.split("\n")[0] + "\n}\nidle.wake_one();")

rule = rules_of("lib/executor/run_queue.hpp", QUEUE)
COPY = """for (std::uint32_t i = 0; i != half; ++i) {
      slot(mine + i).store(victim.slot(h + i).load(relaxed), relaxed);
    }
"""
CLAIM = "    if (!victim.head_.compare_exchange_weak(h, h + half, release, relaxed)) continue;"
rule("a thief copies after its claim", COPY + CLAIM, CLAIM + COPY)
rule("a thief claims by store", COPY + CLAIM, COPY + "victim.head_.store(h + half, release);")
rule("a thief keeps the job that it runs", "head_.store(mine + 1, relaxed);", "")
rule("a thief believes an outdated head", "n == 0 || n > capacity", "n == 0")
rule("there is always room", "capacity - (tail_.load(relaxed) - head_.load(acquire))", "capacity")
TAKE = """for (std::uint32_t i = 0; i != n; ++i) {
      slot(mine + i).store(victim.slot(h + i).load(relaxed), relaxed);
    }
"""
TAKEN = "    if (!victim.head_.compare_exchange_weak(h, h + n, release, relaxed)) continue;"
rule("who has jobs copies another's after its claim", TAKE + TAKEN, TAKEN + TAKE)
rule("who has jobs claims another's by store", TAKE + TAKEN,
     TAKE + "victim.head_.store(h + n, release);")
rule("who has jobs believes an outdated head", "n == 0 || there > capacity", "n == 0")
rule("who has jobs takes more than it has room for", "most = std::min(most, room());", "")
rule("the owner takes by store", "head_.compare_exchange_weak(h, h + 1, release, relaxed)",
     "(head_.store(h + 1, release), true)")
FILL = """for (std::uint32_t i = 0; i != n; ++i) {
      slot(t + i).store(first, relaxed);
      first = first->next;
    }
"""
SHOW = "    tail_.exchange(t + n, seq_cst);"
rule("jobs are shown before they are there", FILL + SHOW, SHOW + FILL)

rule = rules_of("lib/executor/fork_stack.hpp", FORKS)
PLACE = """    for (std::int64_t at = b; at != end; ++at) {
      slot(at).store(first, relaxed);
      first = first->next;
    }
"""
PUSH = "    if (end != b) bottom_.exchange(end, seq_cst);"
rule("a fork is shown before it is there", PLACE + PUSH, PUSH + PLACE)
rule("there is always room for forks", "std::min(room, static_cast<std::int64_t>(n))",
     "(static_cast<void>(room), static_cast<std::int64_t>(n))")
rule("the owner takes the last one without asking", "if (t < b) return slot(b).load(relaxed);",
     "if (t <= b) return slot(b).load(relaxed);")
rule("the owner takes the last one by store",
     "top_.compare_exchange_strong(t, t + 1, relaxed, relaxed)",
     "(top_.store(t + 1, relaxed), true)")
rule("a thief takes by store", "top_.compare_exchange_strong(t, t + 1, release, relaxed)",
     "(top_.store(t + 1, release), true)")
rule("a look at an empty stack takes a place from it", "bottom_.store(b + 1, relaxed);", ";")
rule("the owner does not show what it takes", "bottom_.exchange(b, seq_cst);", ";")

rule = rules_of("lib/executor/mailbox.hpp", ("mailbox:*", "pool:*"))
rule("takes without turning the chain round", """job* const older = j->next;
      j->next = all.first;
      all.first = j;
      j = older;""", "if (all.first == nullptr) all.first = j;\nall.last = j;\nj = j->next;")
rule("takes by load and store", "newest_.exchange(nullptr, acquire)",
     in_two_steps("newest_.store(nullptr, relaxed)", "newest_.load(acquire)", ""))
rule("pushes by store", "newest_.compare_exchange_weak(seen, newest, seq_cst, relaxed)",
     "(newest_.store(newest, seq_cst), true)")

# --- timers ---------------------------------------------------------------------------------------

rule = rules_of("lib/executor/timer_queue.cpp", TIMER)
rule("a cancel does not wait for the call",
     "while (called_.load(acquire) == &t) called_.wait(&t, relaxed);", "")
rule("the end of a call wakes nobody", "called_.notify_all();", "")
rule("nobody learns who is called", "called_.store(t, release);", "")
rule("who is called still waits", "t->waits_ = false;", "")
CALLS = """do {
    left_to_caller_ = false;
    while (timer* const t = take(whose)) call(*t);
    whose = clock::by_hand;
  } while (left_to_caller_);"""
rule("two make calls at once", "const std::lock_guard turn(turn_);\n  " + CALLS, CALLS)
rule("a start does not see that its time is past",
     "return at <= now() ? then::call_due : then::nothing;", "return then::nothing;")
rule("the clock goes back", "std::max(now(), t).time_since_epoch().count()",
     "t.time_since_epoch().count()")

rule = rules_of("lib/resume/sleep.cpp", SLEEP)
rule("who awaits falls asleep by store",
     "word_.compare_exchange_strong(was, state::asleep, release, acquire)",
     "(word_.store(state::asleep, release), true)")
rule("who ends a sleep does not care who is last", "was == state::asleep", "true")
ENDS_SLEEP = "word_.compare_exchange_weak(was, how, acq_rel, relaxed)"
rule("a sleep is ended by store", ENDS_SLEEP, "(word_.store(how, release), true)")
rule("a sleep is ended twice", "if (was == state::due || was == state::stopped) return;", "")
rule("a sleep that is stopped leaves its timer", "if (is_stopped) timer::cancel();", "")

# --- holds ----------------------------------------------------------------------------------------

rule = rules_of("lib/registry/chain.cpp", ("strand: *guard*",))
rule("letting go is not marked", "h.let_go.store(true, relaxed);", "")
SHARE = "if (h->shares.fetch_sub(1, acq_rel) != 1) return;"
rule("nobody frees a hold", SHARE, "h->shares.fetch_sub(1, acq_rel);\nreturn;")
rule("the first one frees a hold", SHARE, "h->shares.fetch_sub(1, acq_rel);")
rule("looks at the shares again", SHARE,
     "h->shares.fetch_sub(1, acq_rel);\nif (h->shares.load(acquire) != 0) return;")
COPIES = ("wait graph: *copy*", "wait graph: *own call*", "wait graph: a body*")
rule("chains are copied without the lock",
     "const std::lock_guard lock(copying);  // E3\n  return kept_copy(top);", "return kept_copy(top);", COPIES)
rule("a frame is copied each time", "return static_cast<uncounted_frame&>(f).copy;", "return nullptr;", COPIES)
rule("the end of what was copied is not said", "let_go_anywhere(*f.copy);", "", COPIES)

rule = rules_of("include/turnstile/detail/hold.hpp", ("strand: *guard*",))
rule("a hold ends though somebody else has a share", "h.shares.load(acquire) == 2", "true")
rule("a hold that has ended stays on top", "t.chain = h.parent;", "")

rule = rules_of("include/turnstile/detail/suspended.hpp", COPIES)
rule("a foreign coroutine waits with a chain that it does not keep",
     "top == nullptr ? nullptr : try_keep(top)", "share(top)")

# --- waits that would never end -------------------------------------------------------------------

rule = rules_of("lib/registry/wait_graph.cpp", GRAPH)
UNTELL = "    drop(take_back(w));  // not the last share: the caller has one\n"
BEGIN = f"""const no_search other;
  if (w.where == told::not_at_all) tell(w, by);
  try {{
    if (std::optional<deadlock_error> error = graph.refusal(w)) throw std::move(*error);
  }} catch (...) {{
{UNTELL}    throw;
  }}"""
rule("searches, and tells when it has the lock again", BEGIN, """{
    const no_search other;
    w.by = by;
    w.seen = 0;
    if (std::optional<deadlock_error> error = graph.refusal(w)) {
      if (w.where != told::not_at_all) drop(take_back(w));
      throw std::move(*error);
    }
  }
  const no_search other;
  if (w.where == told::not_at_all) tell(w, by);""")
rule("who is refused stays told", BEGIN, BEGIN.replace(UNTELL, ""))

rule = rules_of("include/turnstile/detail/wait_graph.hpp", MEMBER)
rule("a member does not search when its scope is watched", "if (m.is_shared || m.scope->watched()) return false;",
     "if (m.is_shared) return false;\nif (true) {\n"
     "w.by = by;\nw.seen = 0;\nw.where = told::in_frame;\nm.waits.store(&w, release);\nreturn true;\n}")
rule("a member's join does not search", "!is_member(by) || w.is_join", "!is_member(by)",
     ("wait graph: work of one*", *MEMBER))
IN_FRAME = """m.waits.store(&w, release);  // G2
  light_fence();
  return !m.scope->watched();"""
TELL, FENCE, LOOK = IN_FRAME.split("\n")
rule("a member looks, then tells", IN_FRAME,
     f"const bool quiet = !m.scope->watched();\nlight_fence();\n{TELL}\nreturn quiet;")
rule("no fence between telling and looking", IN_FRAME, TELL + "\n" + LOOK)
rule("children below a guard are told in one frame", "m.is_shared || m.scope->watched()",
     "m.scope->watched()", ("wait graph: *its children*", *MEMBER))

rule = rules_of("lib/registry/wait_graph.cpp", GRAPH)
WATCH = """if (!s.watched_.load(relaxed)) {
    s.watched_.store(true, relaxed);
    ++watched_scopes_;
    heavy_fence();  // G2
  }
"""
MEMBERS = """  s.lock_.lock();
  for (member_frame* m = s.first_; m != nullptr; m = m->next) {
    if (wait* const w = m->waits.load(acquire)) look_at(*w, *m, from);  // G2
  }
  s.lock_.unlock();"""
rule("looks at members, then watches", WATCH + MEMBERS, MEMBERS + WATCH, MEMBER)
rule("no fence between watching and looking", WATCH + MEMBERS,
     WATCH.replace("    heavy_fence();  // G2\n", "") + MEMBERS, MEMBER)
rule("does not look into a scope", "if (from.is_join) look_into(*from.scope(), from);", "",
     MEMBER)
rule("waits that are over count", "u.seen == search_ || over(u)", "u.seen == search_",
     ("wait graph: *served*", "wait graph: *guard", "wait graph: *handle*", *GRAPH),
     reason="a way found is looked at once more; model wait_edges, ablation NO_OVER")
rule("a way found is not looked at once more", "if (still_there(w, found_)) return true;",
     "return true;", ("wait graph: a guard is unlocked*", *GRAPH))
rule("a way that has ended ends the search", "if (over(w)) return false;", "return false;",
     ("wait graph: the first wait*", *GRAPH))
rule("guards are not looked at once more", "over(*w) || gone(*w->through)", "over(*w)",
     ("wait graph: a guard is unlocked*", *GRAPH))
rule("what is over is not looked at once more", "over(*w) || gone(*w->through)",
     "gone(*w->through)", ("wait graph: a guard is unlocked*", *GRAPH),
     reason="what is not over when it is looked at lasts until the search ends (G1)")
MAY = "watched_scopes_ != 0 || w.is_join"
rule("watched scopes do not make a search worth it", MAY, "w.is_join",
     ("wait graph: from a join*", *MEMBER))
rule("a join is searched for only if something else leads there", MAY, "watched_scopes_ != 0", MEMBER)
WORTH = """for (const chain_frame* f = w.by; f != nullptr; f = f->parent) {
    if (wanted_[bucket_of(node_of(*f))] != 0) return true;
  }"""
rule("a search is worth it only if the innermost section is wanted", WORTH,
     "if (wanted_[bucket_of(node_of(*w.by))] != 0) return true;", ("wait graph: the outer*", *GRAPH))
HAS = "node_of(*f) == from.wants && !gone(*f)"
rule("only what is held innermost is in the way", HAS, HAS + " && f == e.of().by",
     ("wait graph: the outer*", *GRAPH))
rule("only what is held outermost is in the way", HAS, HAS + " && f->parent == nullptr",
     ("wait graph: the inner*", *GRAPH))
rule("whatever shares a bucket is in the way", HAS, "!gone(*f)", ("wait graph: *bucket*", *GRAPH))
rule("guards that were let go are in the way", HAS, "node_of(*f) == from.wants",
     ("wait graph: a guard is unlocked*", *GRAPH),
     reason="that way is looked at once more, and given up then")
rule("chains with many sections are not in the way", "frame_with(e.of().by, from.wants)",
     "static_cast<const chain_frame*>(nullptr)", ("wait graph: more are held*", *GRAPH))
END = """m.waits.store(nullptr, relaxed);  // G3
    light_fence();
    w.where = told::not_at_all;
    if (m.scope->watched()) wait_for_searches();"""
TAKE, FENCE, MARK, SEARCHES = END.split("\n")
ENDS_WAIT = ("wait graph: a member's*", *MEMBER)
rule("a member's wait ends while a search looks at it", END, "\n".join((TAKE, FENCE, MARK)), ENDS_WAIT)
rule("no fence between taking back and looking", END, "\n".join((TAKE, MARK, SEARCHES)), ENDS_WAIT)
rule("a member looks for searches, then takes back", END,
     "\n".join((FENCE, MARK, SEARCHES, TAKE)), ENDS_WAIT)

rule = rules_of("include/turnstile/detail/section_request.hpp", GRAPH)
rule("a request is not over when its turn comes", "if (told_) over_.store(true, release);", "",
     ("wait graph: a wait that was served*", "wait graph: the same*", *GRAPH))
rule("gives up the chain of a wait, then takes that back", "take_wait_back();\n    stay();\n    phase_ = phase::ran;",
     "stay();\ntake_wait_back();\nphase_ = phase::ran;", COPIES,
     reason="the table has a share of its own, and a frame that nobody shares is there as long as who waits")

rule = rules_of("include/turnstile/detail/submitted.hpp", ("wait graph: a handle*",))
rule("a handle's wait is not over when the body has ended", "over_.store(true, release);", "")

rule = rules_of("lib/strand/closing.cpp", ("wait graph: what was closed*", "wait graph: *clos*"))
rule("a close is not over when the section is closed",
     "s->tell_over();\n      s->younger = still_there;", "s->younger = still_there;")
REFUSED = ("wait graph: the place*", *GRAPH)

rule = rules_of("lib/strand/admission.cpp", REFUSED)
rule("who is refused leaves its place empty",
     "if (publish_only(*new stand_in, p) == published::closed) std::abort();", "", REFUSED)

rule = rules_of("lib/strand/section_core.cpp", REFUSED)
rule("a place left is not counted as done", "section_ring::finish(mine_);\n    r = ring_.next(mine_);",
     "r = ring_.next(mine_);", REFUSED)

rule = rules_of("lib/resume/scope_core.cpp", ("wait graph: a join ends*", *MEMBER))
SETTLE = """const no_search meanwhile;  // G4 of wait_graph.hpp
  if (!idle()) return false;
  for (join_awaiter* j = joiners_; j != nullptr; j = j->next_joiner_) j->over_.store(true, release);
  return true;"""
LOCK, IDLE, OVER, TRUE = SETTLE.split("\n")
rule("joins are settled without the lock", SETTLE, "\n".join((IDLE, OVER, TRUE)))
rule("joins are over though new work has come", SETTLE, "\n".join((LOCK, OVER, IDLE, TRUE)))
rule("joins are never over", SETTLE, "\n".join((LOCK, IDLE, TRUE)))

rule = rules_of("include/turnstile/detail/scope_core.hpp", MEMBER)
rule("work that has ended stays a member", "scope.members().remove(work->member_);", "")

rule = rules_of("include/turnstile/detail/child.hpp", ("wait graph: *its children*", *MEMBER))
rule("children are told in one frame", "if (chain != nullptr) chain = side_by_side(chain);", "")

# --- living ---------------------------------------------------------------------------------------

rule = rules_of("lib/registry/living.hpp", LOOKING)
rule("who is added does not fence before it looks at a switch", "light_fence();", ";")
rule("a reader does not fence behind its switch", "heavy_fence();", ";")
rule("remove does not wait for a look", """    while (!slot.compare_exchange_strong(seen, 0, acquire, relaxed)) {  // E2
      slot.wait(seen, relaxed);
      seen = word_of(object);
    }""", "    slot.store(0, relaxed);")
rule("a look does not wake who waits for its end", "slot.notify_one();", ";")
rule("the end of a look leaves its mark", "slot.store(object, seq_cst);", ";")
rule("a look does not ask whether the object is still there",
     "if (!slot.compare_exchange_strong(object, object | looked_at, relaxed, relaxed)) return;",
     "slot.store(object | looked_at, relaxed);")
rule("a reader enters a chunk that is being freed", "if (left == 0) return false;", ";")
rule("a reader leaves a chunk before it is in the next one",
     "    chunk* const next = all_->enter(at_);\n      all_->leave(*std::exchange(at_, next));",
     "    all_->leave(*at_);\n      at_ = all_->enter(at_);")
rule("whoever finds no chunk makes one",
     "if (const std::uintptr_t there = place.load(relaxed); there != 0) return there;", ";")
rule("a freed chunk is still found", "c.place->store(0, relaxed);", ";")
rule("a number goes to an old chunk", "if ((there & round_mask) != round_of(n)) [[unlikely]]\n        continue;", ";")
# --- fibers ---------------------------------------------------------------------------------------

rule = rules_of("lib/fiber/delegated_hold.cpp", ("fiber: its code*", "fiber: one locks*", "fiber:*"))
rule("the loop goes on while the code between lock and unlock waits",
     "self.stage_.exchange(returned_from, acq_rel) == over",
     "(self.stage_.exchange(returned_from, acq_rel), true)")
rule("unlock does not go on with a section that the loop has left",
     "if (stage_.exchange(over, acq_rel) == returned_from) section_->body_finished(*this);",
     "stage_.exchange(over, acq_rel);")
rule("unlock goes on with a section that the loop still has",
     "if (stage_.exchange(over, acq_rel) == returned_from) section_->body_finished(*this);",
     "stage_.exchange(over, acq_rel); section_->body_finished(*this);")
rule("a fiber does not say who has the section", "below_ = std::exchange(top, &frame_);",
     "below_ = top;")

rule = rules_of("lib/fiber/fiber_core.cpp", ("fiber: it*", "fiber:*"))
rule("who awaits a fiber is not told of its end", "scope_->ended(nullptr, at_.where);", ";")
rule("a fiber's end is not its work's", "f.has_ended_ = true;", ";")

# --- devices --------------------------------------------------------------------------------------

DEVICE = ("device: another*", "device: a host execution comes*", "device: who*", "device:*")

rule = rules_of("lib/strand/submissions.cpp", DEVICE)
rule("the section is left while its device works", "if (ring_.has_more(mine_)) return true;",
     "return true;")
rule("who holds does not look whether somebody came",
     "if (word_.compare_exchange_strong(seen, held_now(), acq_rel, relaxed)) return true;",
     "word_.exchange(held_now(), acq_rel);\n  return true;",
     reason=survivors.CAME)
ANNOUNCE = """do {
    said = is_held(seen) ? 0 : came;
  } while (!word_.compare_exchange_weak(seen, said, acq_rel, relaxed));  // T1, T2
  """
rule("who submits does not take the held section",
     ANNOUNCE + "return is_held(seen);", ANNOUNCE + "return false;")
rule("who is told does not take the held section",
     "do {\n    to = is_for_caller(seen) ? 0 : seen;\n"
     "  } while (!word_.compare_exchange_weak(seen, to, acq_rel, relaxed));  // T1, T3\n"
     "  return is_for_caller(seen);",
     "static_cast<void>(seen), static_cast<void>(to);\n  return false;")
rule("who is told of earlier work takes the section for nothing",
     "((word & room) != 0 || word >> flags == n)", "(static_cast<void>(n), true)")
rule("room is made, and who waits for it is not told",
     "((word & room) != 0 || word >> flags == n)", "word >> flags == n",
     reason="who waits for room comes in when the tail is reached: later, and not never")
rule("who holds does not look whether the work is complete now",
     "if (!tail->is_reached() || !all->claim(n)) return false;",
     "static_cast<void>(n);\n    return false;")
rule("who holds for another does not look whether the work is complete now",
     "if (!all->may_go_on(why, *tail) || !all->claim(n)) return nullptr;",
     "static_cast<void>(n);\n    return nullptr;")
rule("what was held is taken for what one held oneself",
     "if (all->front != submissions::wait::nobody) {\n      next = next_of_held();\n      return false;\n    }",
     ";")
rule("the place put back is taken for one that has ended",
     "return front == submissions::wait::nobody ? finish_and_next() : next_awaited();",
     "return finish_and_next();")
rule("a host execution does not wait", "if (s == nullptr || !s->can_follow(*tail)) return wait::tail;",
     "if (s != nullptr && !s->can_follow(*tail)) return wait::tail;")
rule("there is always room", "return has_room() ? wait::nobody : wait::room;",
     "return wait::nobody;")
HELD = ("device: work is complete*", "device: a section that is handed on*")
rule("work is complete for which the section was held, and its place is not counted as done",
     "if (request* const next = finish_and_next()) pass_to_executor(*next, done);",
     "if (request* const next = next_awaited()) pass_to_executor(*next, done);", HELD)
rule("work is complete for which the section was held, and those set aside are forgotten",
     "!has_aside_ || !ask_on_executor(done)", "true", HELD)

rule = rules_of("include/turnstile/detail/execution.hpp", ("device: who asks hears*",))
rule("who finds the section idle does not ask whether its device is lost",
     "!sent && !section.special()", "!sent")
rule("who finds the section idle does not ask whether it is stopped by now",
     "!is_stopped_since(t)", "true", ("withdrawal: nobody begins*",))

rule = rules_of("lib/strand/submission.cpp", DEVICE)
rule("the caller goes on when it has submitted",
     "if (!end_ || !end_->add(*this)) complete();", "complete();")
rule("the section does not hear that work is complete",
     "if (all_->claim(n)) section_->go_on_with_device();", ";")
rule("room is made after the section was looked at",
     "    all_->end_one();  // T3\n    if (all_->claim(n)) section_->go_on_with_device();",
     "    if (all_->claim(n)) section_->go_on_with_device();\n    all_->end_one();",
     reason="who waits for room comes in when the tail is reached: later, and not never")
rule("a section that is to be held until completion is handed on",
     "section_->hands_on_late()", "false")

SUBMITTED = ("device: a wait until*",)
rule("who waits until it is submitted is not told", "    w->go_on();", "    ;", SUBMITTED)
rule("who waits until it is submitted does not look whether it is", "if (told_) return false;", "",
     SUBMITTED)
rule("a wait until it is submitted is taken back though it is over",
     "if (place == nullptr) return false;\n  place = w.next;",
     "if (place != nullptr) place = w.next;", SUBMITTED)
rule("a wait until it is submitted is taken back and told", "  place = w.next;", "", SUBMITTED)

# --- keeping --------------------------------------------------------------------------------------

KEPT = ("keeping: its thread and another*", "keeping: its thread asks twice*", "keeping:*")
STAYS_AWAY = ("keeping: its thread stays away*", "keeping: its thread and another*", "keeping:*")
GIVEN_UP = ("keeping: it is given up*", "keeping: a thread that begins*", "keeping:*")
JUST_KEPT = ("keeping: *just when*", "keeping:*")
WANTED = ("keeping: its times*", "keeping:*")
ITS_GUARD = ("keeping: another thread unlocks*", "keeping: its thread has ended when*", "keeping:*")

rule = rules_of("include/turnstile/detail/keeper.hpp", KEPT)
OUT, FENCE, LOOK = ("bodies_.store(now + inside, release);  // K5\n    ",
                    "lightest_fence();                      // K1\n    ",
                    "return is_kept(word_.load(relaxed));   // relaxed: its own")
ENTER = OUT + FENCE + LOOK.split("  //")[0].rstrip()
SEEN = "const bool mine = is_kept(word_.load(relaxed));\n"
rule("who enters does not look whether it is wanted", FENCE + LOOK.split("  //")[0].rstrip(), "return true;")
rule("no fence between entering and looking", ENTER, OUT + LOOK.split("  //")[0].rstrip())
rule("looks whether it is wanted, then enters", ENTER, SEEN + OUT + FENCE + "return mine;")
BACK = "bodies_.store(then, release);  // K2\n    "
FENCE_OUT = "lightest_fence();              // K1\n    "
LEAVE = BACK + FENCE_OUT + "return is_kept(word_.load(relaxed));"
rule("who leaves does not look whether it is wanted", LEAVE, BACK + "\nreturn true;")
rule("no fence between leaving and looking", LEAVE, LEAVE.replace(FENCE_OUT, ""))
rule("looks whether it is wanted, then leaves", LEAVE, SEEN + BACK + FENCE_OUT + "return mine;")

rule = rules_of("lib/base/keeper.cpp", KEPT)
rule("an epoch goes on", "word_.load(relaxed) / states + 1", "word_.load(relaxed) / states",
     ("keeping: its thread keeps another*", "keeping: it is kept by another*", "keeping:*"))
rule("it is taken by store",
     "return word_.compare_exchange_strong(seen, in(epoch, to), relaxed, relaxed);",
     "if (word_.load(acquire) != seen) return false;\n"
     "word_.store(in(epoch, to), release);\nreturn true;", STAYS_AWAY)
rule("its thread does not take what is wanted", "change(epoch, wanted, taken)",
     "(static_cast<void>(epoch), false)")
FREE_WORD = "free_word(word_.load(relaxed) / states);"
OUTSIDE = "forget_taken();"
rule("who forgets while it is inside says first that it is not", f"{FREE_WORD}\n  {OUTSIDE}",
     OUTSIDE + FREE_WORD, JUST_KEPT,
     reason="it takes somebody without a place in line who saw an earlier keeping, and one who arrives just when it "
            "is kept again: no scenario has both")
COUNTED = ("keeping: what has run is counted*", "keeping:*")
NO_SWITCH = ("the checker changes threads at no statistic, so nobody looks between taking and counting: model keeping, "
             "COUNT_IS_FORGOTTEN")
rule("another section is kept before what ran is counted", "word_.load(acquire) % states == free",
     "true", COUNTED)
rule("what ran is not the section's any more when its thread looks",
     "section_.store(nullptr, relaxed);\n  bodies_.store(ended_bodies(), release);",
     "section_.store(nullptr, relaxed);\n  counts_.store(nullptr, relaxed);\n"
     "  bodies_.store(ended_bodies(), release);", COUNTED[:1], reason=NO_SWITCH)
rule("its thread is outside while a guard is inside elsewhere",
     "if (word_.load(relaxed) % states != free) return true;", ";", ITS_GUARD)
rule("a new thread's keeper is one that a guard is inside of", "if (k->stays_inside()) continue;",
     ";", ("keeping: its thread has ended when*", "keeping:*"))
LET_OUT = ("free_word(word_.load(relaxed) / states);  // its thread begins another epoch when it is outside\n  ",
           "if (this == here().keeps) forget_taken();")
rule("a guard that owns it now still keeps it", "".join(LET_OUT), LET_OUT[1], ITS_GUARD)
rule("what is wanted while it is given up is nobody's",
     "change(epoch, kept, given) || change(epoch, wanted, given)", "change(epoch, kept, given)",
     GIVEN_UP, reason="who wants it is on the way, and takes it: only later")
rule("who gives it up says so by taking it",
     "change(epoch, kept, given) || change(epoch, wanted, given)",
     "change(epoch, kept, taken) || change(epoch, wanted, taken)", GIVEN_UP)
rule("who wants it has no fence before the look", "if (&k != here().keeps) heavy_fence();", ";")
rule("who wants it does not look whether somebody is inside",
     "(bodies & inside) != 0", "false")
rule("the end looks whether somebody is inside of what is over",
     "if (k.word_.load(relaxed) != in(seen.epoch, wanted)) return revoked::over;", ";", GIVEN_UP,
     reason="who gives it up is not inside then: only a system call more")

rule = rules_of("lib/strand/keeping.cpp", KEPT)
rule("inside of one section another one is kept", "k == nullptr || k->stays_inside()", "k == nullptr",
     ("keeping: within*", "keeping:*"))
rule("its thread never notices that its guard is gone", "k == nullptr || k->stays_inside()",
     "k == nullptr || k->is_inside()", ITS_GUARD)
INSIDE = "count_kept(by.executions());\n  ring_.hold_kept(mine_);\n  by.let_out();"
rule("a guard does not count what was kept", INSIDE, "ring_.hold_kept(mine_);\nby.let_out();",
     ITS_GUARD)
rule("a guard counts when its thread may keep another one", INSIDE,
     "ring_.hold_kept(mine_);\nby.let_out();\ncount_kept(by.executions());", ITS_GUARD)
rule("what a guard owns now still says that it is kept", "ring_.hold_kept(mine_);", ";", ITS_GUARD)
SHOWN = ("keeping: its guard is detached while another thread looks*",)
rule("a guard goes out before the queue knows what it holds", INSIDE,
     "count_kept(by.executions());\nby.let_out();\nring_.hold_kept(mine_);", SHOWN)
UNUSED = "ring_.is_kept() && !keeper::numbered(kept_by_.load(relaxed)).is_inside()"
rule("who shows it unused has looked once", UNUSED + " &&\n         ring_.is_kept()", UNUSED, SHOWN)
rule("what is kept already is not given up", "give_up_kept();\n    return false;", "return true;",
     GIVEN_UP)
NUMBER = "kept_by_.store(k.number(), relaxed);\n  "
LINE = """if (!ring_.keep(p, mine_)) {
    k.forget();  // the caller is the owner in any case
    return false;
  }"""
rule("the section says that it is kept, then by whom", NUMBER + LINE, LINE + "\n" + NUMBER,
     JUST_KEPT)
rule("who could not keep it stays inside",
     "k.forget();  // the caller is the owner in any case", ";", JUST_KEPT)
rule("who keeps it does not look again what else it has to do",
     "special_.load(seq_cst) != 0", "false", ("keeping: *just when it is kept", *WANTED))
rule("who keeps it does not look whether it is wanted already", "!k.leave(k.ended_bodies())",
     "(static_cast<void>(k.leave(k.ended_bodies())), false)", JUST_KEPT)
rule("who takes its own back does not serve",
     "if (!s->ring_.let_go(s->mine_)) s->serve_next();",
     "static_cast<void>(s->ring_.let_go(s->mine_));")
rule("who takes its own back does not say so", "if (!s->ring_.let_go(s->mine_)) s->serve_next();",
     "s->serve_next();")
rule("what is given up is not passed on to who waits",
     "if (!ring_.let_go(mine_)) send_next(to_shared);", "static_cast<void>(ring_.let_go(mine_));",
     GIVEN_UP)
rule("who is queued does not want it", "what != after_publish::nothing || !take_from(seen)",
     "(static_cast<void>(seen), true)", STAYS_AWAY)
PUBLISH = """keeper::sight seen = seen_kept();
  if (seen && seen.by->is_inside()) ring_.note_waiting_behind(p);
  const after_publish what = last ? ring_.publish_last(r, p, mine_) : ring_.publish(r, p, mine_);
"""
TAKES = """  if (what != after_publish::nothing || !take_from(seen)) return what;
  return ring_.let_go(mine_) ? what : after_publish::take_over;"""
rule("looks whose it is when its request is there already", PUBLISH + TAKES,
     PUBLISH.split("\n", 2)[2]
     + "keeper::sight late;\n"
       "if (what != after_publish::nothing || (late = seen_kept(), !take_from(late))) return what;\n" + TAKES.split("\n", 1)[1],
     ("keeping: * does not come back", "keeping:*"))
rule("who wants it first leaves it to others", "!seen || !keeper::want(seen)",
     "!seen || (static_cast<void>(keeper::want(seen)), true)", STAYS_AWAY)
rule("the end does not want it", "if (seen) static_cast<void>(keeper::want(seen));", ";")
rule("who takes it over does not say so", "ring_.let_go(mine_) ? what : after_publish::take_over",
     "after_publish::take_over", STAYS_AWAY)
FIRST = """if (!seen || seen.by->is_inside() || !take_from(seen)) return arrival::queued;
  static_cast<void>(ring_.let_go(mine_));"""
rule("who takes it where it comes does not say so", FIRST, FIRST.split("\n")[0], STAYS_AWAY)
rule("who comes takes it though that fails", FIRST,
     FIRST.replace("!take_from(seen)", "(static_cast<void>(take_from(seen)), false)"))
rule("who tries does not take it", "take_away_kept();\n  return ring_.try_arrive(p);",
     "return ring_.try_arrive(p);", ("keeping: *try*", "keeping:*"))
rule("the end does not wait for who gives it up",
     "while (k.gives() && &k != here().keeps) pause();", "", GIVEN_UP)
ENDED = """keeper::counted(seen);
        static_cast<void>(ring_.let_go(mine_));
        return;"""
rule("the end does not take it", ENDED,
     ENDED.replace("static_cast<void>(ring_.let_go(mine_));\n        ", ""), GIVEN_UP)
COUNT = "s->count_kept(k.executions());\n  "
rule("who gives it up forgets it before it lets it go",
     COUNT + "s->let_go_kept();\n  k.forget();", COUNT + "k.forget();\n  s->let_go_kept();", GIVEN_UP)
rule("who takes it back does not count", COUNT + "k.forget();", "k.forget();", COUNTED)
rule("who gives it up does not count", COUNT + "s->let_go_kept();\n  k.forget();",
     "s->let_go_kept();\n  k.forget();", COUNTED)
rule("who takes it does not count", "count_kept(seen.executions);\n  keeper::counted(seen);",
     "keeper::counted(seen);", COUNTED)
rule("who takes it does not say that it has counted",
     "count_kept(seen.executions);\n  keeper::counted(seen);", "count_kept(seen.executions);", COUNTED)
rule("who takes it says so before it has counted",
     "count_kept(seen.executions);\n  keeper::counted(seen);",
     "keeper::counted(seen);\n  count_kept(seen.executions);", COUNTED[:1], reason=NO_SWITCH)
rule("what is kept is not counted until it is let go",
     "std::max(counted, keeper::numbered(n).executions_of(*this))", "counted", COUNTED)
rule("the end does not say that what was kept is over",
     ENDED, ENDED.replace("keeper::counted(seen);\n        ", ""),
     ("keeping: another section is kept in its place*", "keeping:*"))

rule = rules_of("lib/strand/section_state.cpp", WANTED)
rule("what a section has to do besides is not told to who keeps it",
     "if (ring_.is_kept()) take_away_kept(to_shared);", ";")

rule = rules_of("include/turnstile/detail/section_core.hpp", KEPT)
rule("who comes second takes it as if it were the first", "section_ring::is_first_at_kept(p)",
     "section_ring::found_kept(p)", STAYS_AWAY)
rule("who finds its own wanted goes on as if it were kept", "stop_keeping(k);\n    return false;",
     "return false;")
rule("another thread unlocks a guard as if it were its own", "&by != t.keeps", "false", ITS_GUARD)
rule("who leaves its own, which is wanted, leaves it to nobody",
     "if (!k.leave(then)) [[unlikely]]\n      stop_keeping(k);", "static_cast<void>(k.leave(then));")

rule = rules_of("lib/ring/ticket_word.cpp", KEPT)
rule("it is kept though somebody has come",
     "return word_.compare_exchange_strong(alone, alone | kept_bit, seq_cst, relaxed);",
     "static_cast<void>(alone);\nword_.fetch_or(kept_bit, seq_cst);\nreturn true;", JUST_KEPT)
rule("who lets go does not say so", "word_.fetch_sub(kept_bit | 1, release)",
     "word_.fetch_sub(1, release)", STAYS_AWAY)
rule("who keeps it does not renew head", "mine.head = (ticket_of(p) + 1) & ticket_mask;", "",
     STAYS_AWAY)
rule("a guard that owns it now does not say so", "word_.fetch_sub(kept_bit, relaxed);", ";", ITS_GUARD)
rule("a guard that owns it now is behind itself", "mine.head = (mine.head - 1) & ticket_mask;", "", ITS_GUARD)
LET_GO = """const auto left = static_cast<std::uint32_t>((was & pending_mask) - 1);
  if (left == 0) return true;  // the last touch
  mine.known = left;
  return false;"""
rule("who lets go does not renew known", LET_GO, LET_GO.replace("mine.known = left;\n", "\n"),
     ("keeping: two were*", "keeping:*"))

# --- variables ------------------------------------------------------------------------------------

rule = rules_of("lib/variable/value_cell.cpp", ("variable:*",))
rule("a claim does not look again", "held(was)", "false")
rule("a take does not wait", "wait_for(b);", "")
rule("who gives up a change wakes nobody", "word.notify_all();", "",
     ("variable: one waits for a change*",))
