#include "frontend/onnx/upgrade.h"

namespace anfora::onnx {

ir::Node* upgrade(PendingNode&) { return nullptr; }

}  // namespace anfora::onnx
