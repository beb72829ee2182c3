#include "count.hpp"

#include "ledger.hpp"
#include "read_file.hpp"
#include "shared_index.hpp"

#include <turnstile/turnstile.hpp>

namespace word_index {
namespace {

// A reader that waits for a shard leaves its thread to another, so some more of them than threads
// keep the threads busy. Each holds the words of one file, which bounds the memory.
constexpr std::size_t readers_per_thread = 4;

struct shared_state {
  const std::vector<std::string>& files;
  turnstile::synchronized<ledger> books;
  shared_index index = {};
};

// Reading blocks the thread. That is the right choice for files, which are mostly in memory
// already; for sockets it would not be.
turnstile::task<> read_files(shared_state& state) {
  auto next = co_await state.books.execute([](ledger& books) { return books.next(); });
  while (next) {
    const reading file = read_file(state.files[*next]);
    co_await state.index.add(file.words);
    next = co_await state.books.execute([&](ledger& books) {
      books.enter(file);
      return books.next();
    });
  }
}

turnstile::task<result> read_everything(shared_state& state, turnstile::thread_pool& pool,
                                        std::size_t readers) {
  turnstile::async_scope scope{{.executor = pool}};
  for (std::size_t i = 0; i < readers; ++i) scope.spawn(read_files(state));
  co_await scope.join();

  result all;
  all.words = co_await state.index.take();
  co_await state.books.execute([&](ledger& books) {
    all.sums = books.sums();
    all.skips = books.sorted_skips();
  });
  co_return all;
}

std::string numbers(std::uint64_t parallel, std::uint64_t serial) {
  return std::to_string(parallel) + " in parallel, " + std::to_string(serial) + " serially";
}

std::uint64_t times(const word_counts& counts, const std::string& word) {
  const auto place = counts.find(word);
  return place == counts.end() ? 0 : place->second;
}

}  // namespace

result count_in_parallel(const std::vector<std::string>& files, std::size_t threads,
                         status_line& line) {
  shared_state state{files,
                     turnstile::synchronized<ledger>{ledger{"counting", files.size(), line}}};
  // After the state and so destroyed before it: no worker is left when the sections go.
  turnstile::thread_pool pool{static_cast<unsigned>(threads)};
  return turnstile::sync_wait(read_everything(state, pool, threads * readers_per_thread));
}

result count_serially(const std::vector<std::string>& files, status_line& line) {
  ledger books{"counting again, serially", files.size(), line};
  result all;
  while (const auto next = books.next()) {
    const reading file = read_file(files[*next]);
    for (const auto& [word, count] : file.words) add(all.words, word, count);
    books.enter(file);
  }
  all.sums = books.sums();
  all.skips = books.sorted_skips();
  return all;
}

std::string difference(const result& parallel, const result& serial) {
  const totals& a = parallel.sums;
  const totals& b = serial.sums;
  if (a.files != b.files) return "files: " + numbers(a.files, b.files);
  if (a.bytes != b.bytes) return "bytes: " + numbers(a.bytes, b.bytes);
  if (a.words != b.words) return "words: " + numbers(a.words, b.words);
  for (const auto& [word, count] : serial.words) {
    if (const auto other = times(parallel.words, word); other != count) {
      return "'" + word + "': " + numbers(other, count);
    }
  }
  if (parallel.words.size() != serial.words.size()) {
    return "distinct words: " + numbers(parallel.words.size(), serial.words.size());
  }
  return {};
}

}  // namespace word_index
