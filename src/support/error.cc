#include "anfora/error.h"

#include <utility>

namespace anfora {

Error::Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) { compose(); }

Error& Error::at_node(std::string node) {
  if (node_.empty()) node_ = std::move(node);
  compose();
  return *this;
}
Error& Error::at_location(std::string location) {
  if (location_.empty()) location_ = std::move(location);
  compose();
  return *this;
}
Error& Error::with_hint(std::string hint) {
  if (hint_.empty()) hint_ = std::move(hint);
  compose();
  return *this;
}

Error& Error::with_excerpt(std::string excerpt) {
  if (excerpt_.empty()) excerpt_ = std::move(excerpt);
  return *this;
}

void Error::compose() {
  text_.clear();
  if (!location_.empty()) text_ += location_ + ": ";
  if (!node_.empty()) text_ += node_ + ": ";
  text_ += message_;
  if (!hint_.empty()) text_ += " (" + hint_ + ")";
}

}  // namespace anfora
