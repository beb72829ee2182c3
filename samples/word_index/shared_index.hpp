// shared_index.hpp - word counts that many coroutines add to.
#pragma once

#include "words.hpp"

#include <turnstile/turnstile.hpp>

#include <array>
#include <cstddef>

namespace word_index {

class shared_index {
 public:
  /// Adds the words of one file. Each word belongs to one shard; a shard is held only while this
  /// file's words are added to it.
  turnstile::task<> add(const word_counts& file);

  /// Everything added so far, moved out of the shards.
  turnstile::task<word_counts> take();

 private:
  // More than the threads of most machines, so that two readers seldom want the same one; few
  // enough that a file brings several words to each visit.
  static constexpr std::size_t shard_count = 16;

  static std::size_t shard_of(std::string_view word);

  std::array<turnstile::synchronized<word_counts>, shard_count> shards_;
};

}  // namespace word_index
