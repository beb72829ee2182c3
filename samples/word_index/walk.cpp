#include "walk.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <sys/stat.h>
#include <system_error>
#include <utility>

namespace word_index {
namespace {

using identity = std::pair<dev_t, ino_t>;  // what two names of one thing have in common

std::vector<std::string> sorted_entries(const std::string& path, std::error_code& error) {
  std::vector<std::string> names;
  std::filesystem::directory_iterator entry{path, error};
  for (; !error && entry != std::filesystem::directory_iterator{}; entry.increment(error)) {
    names.push_back(entry->path().string());
  }
  std::ranges::sort(names);
  return names;
}

class walker {
 public:
  explicit walker(status_line& line) : line_{line} {}

  void visit(const std::string& path);
  tree take() { return std::move(found_); }

 private:
  void visit_directory(const std::string& path, identity id);
  void refuse(const std::string& path, int error);
  void refuse_known(const std::string& path, identity id, const std::string& first_name);
  void skip_path(reason why, const std::string& path, std::string detail = {});
  void show_progress();

  status_line& line_;
  tree found_;
  std::map<identity, std::string> first_names_;  // of everything met so far
  std::vector<identity> above_;                  // the directories we are in, outermost first
};

void walker::visit(const std::string& path) {
  struct stat status = {};
  if (::stat(path.c_str(), &status) != 0) return refuse(path, errno);
  if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode)) {
    return skip_path(reason::special, path, std::string{special_kind(status.st_mode)});
  }
  const identity id{status.st_dev, status.st_ino};
  const auto [known, is_new] = first_names_.try_emplace(id, path);
  if (!is_new) return refuse_known(path, id, known->second);
  if (S_ISDIR(status.st_mode)) return visit_directory(path, id);
  found_.files.push_back(path);
  show_progress();
}

// All entries are read before the first is visited, so that a deep tree does not hold a directory
// open for each level.
void walker::visit_directory(const std::string& path, identity id) {
  std::error_code error;
  const std::vector<std::string> entries = sorted_entries(path, error);
  if (error) skip_path(reason::unreadable, path, error.message());
  above_.push_back(id);
  for (const std::string& entry : entries) visit(entry);
  above_.pop_back();
}

void walker::refuse(const std::string& path, int error) {
  struct stat status = {};
  const bool is_there = ::lstat(path.c_str(), &status) == 0;
  if (error == ENOENT) return skip_path(is_there ? reason::dangling : reason::missing, path);
  if (error == ELOOP && is_there) return skip_path(reason::loop, path);
  skip_path(reason::unreadable, path, system_message(error));
}

void walker::refuse_known(const std::string& path, identity id, const std::string& first_name) {
  const bool is_loop = std::ranges::find(above_, id) != above_.end();
  skip_path(is_loop ? reason::loop : reason::repeated, path, first_name);
}

void walker::skip_path(reason why, const std::string& path, std::string detail) {
  found_.skips.push_back({why, path, std::move(detail)});
}

void walker::show_progress() {
  if (line_.due()) line_.show("looking for files: " + std::to_string(found_.files.size()));
}

}  // namespace

tree walk(const std::vector<std::string>& roots, status_line& line) {
  walker steps{line};
  for (const std::string& root : roots) steps.visit(root);
  return steps.take();
}

std::vector<std::string> system_headers() {
  std::vector<std::string> found;
  const auto add = [&](const std::string& path) {
    std::error_code error;
    if (std::filesystem::is_directory(path, error)) found.push_back(path);
  };
  std::error_code error;
  add("/usr/include/c++");
  add("/usr/local/include/c++");
  for (const std::string& target : sorted_entries("/usr/include", error)) add(target + "/c++");
  for (const std::string& tool : sorted_entries("/usr/lib", error)) add(tool + "/include/c++");
  return found;
}

}  // namespace word_index
