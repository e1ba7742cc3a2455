// Errors are values with a code, the place they are about, and a hint on what to do. Inside the library
// they travel as exceptions of this one type; a command line tool prints what() and exits non-zero.
#pragma once

#include <exception>
#include <string>

namespace [[gnu::visibility("default")]] anfora {

enum class ErrorCode {
  InvalidArgument,    // the caller's fault: a wrong input name, shape, option
  InvalidModel,       // the file is broken or breaks its specification
  TypeMismatch,       // types or shapes of a node do not fit together
  Unsupported,        // valid, but not implemented here
  NotFound,           // a file or a name that does not exist
  Io,                 // reading or writing failed
  ResourceExhausted,  // out of memory, a bound hit
  Internal,           // a defect of Anfora
};

class Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message);

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& node() const { return node_; }          // "Conv 'layer1.conv'", empty when unknown
  const std::string& location() const { return location_; }  // "model.onnx: node 17", empty when unknown
  const std::string& hint() const { return hint_; }
  const std::string& excerpt() const { return excerpt_; }  // the lines of a source, with carets below what is meant; or empty

  // Each fills what is still empty, so that the innermost, most precise place wins.
  Error& at_node(std::string node);
  Error& at_location(std::string location);
  Error& with_hint(std::string hint);
  Error& with_excerpt(std::string excerpt);

  // "location: node: message (hint)", without the excerpt.
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  void compose();
  ErrorCode code_;
  std::string message_, node_, location_, hint_, excerpt_, text_;
};

}  // namespace anfora
