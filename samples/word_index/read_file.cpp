#include "read_file.hpp"

#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace word_index {
namespace {

constexpr std::size_t block_size = 65536;

class open_file {
 public:
  // The walk saw a regular file here. Should it be a fifo by now, O_NONBLOCK keeps us from waiting
  // for somebody to write into it.
  explicit open_file(const std::string& path)
      : descriptor_{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)} {}
  ~open_file() {
    if (is_open()) ::close(descriptor_);
  }
  open_file(const open_file&) = delete;
  open_file& operator=(const open_file&) = delete;

  bool is_open() const { return descriptor_ >= 0; }

  mode_t mode() const {
    struct stat status = {};
    return ::fstat(descriptor_, &status) == 0 ? status.st_mode : 0;
  }

  ssize_t read(char* to) const {
    ssize_t length;
    do {
      length = ::read(descriptor_, to, block_size);
    } while (length < 0 && errno == EINTR);
    return length;
  }

 private:
  const int descriptor_;
};

reading refusal(reason why, const std::string& path, std::string detail = {}) {
  return {.refused = skip{why, path, std::move(detail)}};
}

reading unreadable(const std::string& path, int error) {
  if (error == ENOENT) return refusal(reason::missing, path);  // gone since the walk
  return refusal(reason::unreadable, path, system_message(error));
}

}  // namespace

reading read_file(const std::string& path) {
  const open_file file{path};
  if (!file.is_open()) return unreadable(path, errno);
  if (const mode_t mode = file.mode(); !S_ISREG(mode)) {
    return refusal(reason::special, path, std::string{special_kind(mode)});
  }

  reading result;
  tokeniser words{result.words};
  const auto buffer = std::make_unique_for_overwrite<char[]>(block_size);
  while (const ssize_t length = file.read(buffer.get())) {
    if (length < 0) return unreadable(path, errno);
    const std::string_view block{buffer.get(), static_cast<std::size_t>(length)};
    const bool is_first = result.bytes == 0;
    if (is_first && block.find('\0') != block.npos) return refusal(reason::binary, path);
    words.feed(block);
    result.bytes += block.size();
  }
  words.finish();
  result.word_total = words.words();
  return result;
}

}  // namespace word_index
