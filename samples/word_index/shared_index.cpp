#include "shared_index.hpp"

#include <vector>

namespace word_index {

turnstile::task<> shared_index::add(const word_counts& file) {
  // Sorted beforehand and alone, so that each shard is entered once and held for little more than
  // the additions themselves.
  std::array<std::vector<const word_counts::value_type*>, shard_count> parts;
  for (const auto& entry : file) parts[shard_of(entry.first)].push_back(&entry);

  for (std::size_t i = 0; i < shard_count; ++i) {
    if (parts[i].empty()) continue;
    co_await shards_[i].execute([&](word_counts& shard) {
      for (const auto* entry : parts[i]) word_index::add(shard, entry->first, entry->second);
    });
  }
}

turnstile::task<word_counts> shared_index::take() {
  word_counts all;
  for (auto& part : shards_) {
    co_await part.execute([&](word_counts& shard) { all.merge(shard); });
  }
  co_return all;
}

std::size_t shared_index::shard_of(std::string_view word) {
  return text_hash{}(word) % shard_count;
}

}  // namespace word_index
