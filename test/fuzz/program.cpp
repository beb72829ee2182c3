// program.cpp - reading a program from bytes.

#include "fuzz/program.hpp"

#include <algorithm>

namespace fuzz {

namespace {

// Limits keep a program small enough to be run thousands of times in a second.
constexpr int most_instructions = 96;
constexpr int most_depth = 5;
constexpr unsigned most_sections = 5;

class reader {
 public:
  explicit reader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  program read() {
    program p;
    const unsigned head = byte();
    const unsigned sections = 1 + head % most_sections;
    p.first_eager = head / most_sections % 4 == 1;
    p.second_eager = head / most_sections % 2 == 1;
    for (unsigned i = 0; i != sections; ++i) p.sections.push_back({byte()});
    while (!bytes_.empty()) p.steps.push_back(driver());
    return p;
  }

 private:
  std::uint8_t byte() {
    if (bytes_.empty()) return 0;
    const std::uint8_t first = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return first;
  }

  driver_step driver() {
    constexpr unsigned kinds = driver_step::coded;
    const std::uint8_t b = byte();
    driver_step s{
        static_cast<driver_step::kind>(b % kinds), static_cast<std::uint8_t>(b / kinds), {}};
    if (s.what == driver_step::kind::drop && s.arg / 4 % 4 == 1)
      s.what = driver_step::kind::stop_token;
    if (s.what == driver_step::kind::drop && s.arg / 4 % 4 == 2)
      s.what = driver_step::kind::advance;
    if (s.what == driver_step::kind::spawn) s.task = read_block(0);
    return s;
  }

  block read_block(int depth) {
    block all;
    for (unsigned n = byte() % 8; n != 0 && left_ != 0; --n) all.push_back(read_one(depth));
    return all;
  }

  instruction read_one(int depth) {
    --left_;
    instruction i;
    i.what = static_cast<op>(byte() % coded_ops);
    const std::uint8_t where = byte();
    i.section = where & 15u;
    i.arg = where >> 4u;
    i.flags = byte();
    if (i.what == op::nothing && i.may_go()) i.what = i.variant() ? op::advance : op::stop_token;
    const unsigned inner = depth == most_depth ? 0 : blocks_of(i);
    for (unsigned n = 0; n != inner; ++n) i.blocks.push_back(read_block(depth + 1));
    i.blocks.resize(std::max<std::size_t>(i.blocks.size(), 2));  // nobody has to ask
    return i;
  }

  static unsigned blocks_of(const instruction& i) {
    switch (i.what) {
      case op::execute:
      case op::execute_waiting:
      case op::lock:
      case op::try_execute:
      case op::submit:
      case op::submit_waiting:
      case op::post:
      case op::post_waiting:
      case op::schedule:
      case op::wait_in_place: return 1;
      case op::all_of_two: return 2;
      case op::all_in_range:
      case op::scope: return 1 + i.arg % 4u;
      default: return 0;
    }
  }

  std::span<const std::uint8_t> bytes_;
  int left_ = most_instructions;
};

}  // namespace

program decode(std::span<const std::uint8_t> bytes) { return reader(bytes).read(); }

}  // namespace fuzz
