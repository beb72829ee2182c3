#include "contender/plain_threads.hpp"

#include <cds/algo/flat_combining.h>
#include <cds/init.h>
#include <cds/threading/model.h>
#include <functional>

namespace {

namespace fc = cds::algo::flat_combining;

// libcds wants its start and end once a process, and the same of each thread that uses it.
struct libcds {
  libcds() { cds::Initialize(); }
  ~libcds() { cds::Terminate(); }
};
const libcds started;

class cds_flat_combining {
 public:
  static constexpr std::string_view name = "cds_flat_combining";
  // A section keeps a record, and a thread-specific pointer, for each thread that ever entered.
  static constexpr std::size_t most_sections = 1024;

  static void on_thread(std::size_t, const std::function<void()>& rounds) {
    cds::threading::Manager::attachThread();
    rounds();
    cds::threading::Manager::detachThread();
  }

  template <class Body>
  void execute(Body&& body) {
    auto* const record = kernel_.acquire_record();
    record->call = [](void* b) { (*static_cast<std::remove_reference_t<Body>*>(b))(); };
    record->body = &body;
    kernel_.combine(fc::req_Operation, record, *this);
    kernel_.release_record(record);
  }

  // Called by whichever thread combines, for each request it finds.
  struct request : fc::publication_record {
    void (*call)(void*);
    void* body;
  };
  void fc_apply(request* r) { r->call(r->body); }

 private:
  fc::kernel<request> kernel_;
};

const bool asked = bench::ask_everything<bench::plain_threads<cds_flat_combining>>();

}  // namespace
