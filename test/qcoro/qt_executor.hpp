// qt_executor.hpp - a Qt thread's event loop as an executor.
#pragma once

#include <turnstile/executor.hpp>

#include <QMetaObject>
#include <QObject>
#include <Qt>

// Jobs run in the loop of the thread that made it. To be used as execute_options::resume_on and as
// section_options::executor, and made and destroyed by that thread.
class qt_executor {
 public:
  void post(turnstile::job& j) noexcept {
    QMetaObject::invokeMethod(&context_, [&j] { j.run(); }, Qt::QueuedConnection);
  }

 private:
  QObject context_;
};
