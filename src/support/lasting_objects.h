// Objects that live as long as the process, since threads on their way out may still hold them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace anfora {

// Each is one user's at a time, then another's.
template <class T>
class LastingObjects {
 public:
  // A free one. Where there is none, make() gives `count` of them first, as std::unique_ptr<T>.
  template <class Make>
  T* take(int count, const Make& make) {
    std::lock_guard lock(mutex_);
    if (free_.empty()) {
      made_ += static_cast<size_t>(std::max(count, 1));
      free_.reserve(made_);  // giving back must not fail
      while (free_.size() < static_cast<size_t>(std::max(count, 1))) free_.push_back(make().release());
    }
    T* object = free_.back();
    free_.pop_back();
    return object;
  }
  void give_back(T* object) {
    std::lock_guard lock(mutex_);
    free_.push_back(object);
  }

 private:
  std::mutex mutex_;
  std::vector<T*> free_;
  size_t made_ = 0;
};

}  // namespace anfora
