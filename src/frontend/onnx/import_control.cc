#include "frontend/onnx/importer.h"

namespace anfora::onnx {

ir::Node* Importer::import_control(PendingNode&) { return nullptr; }

}  // namespace anfora::onnx
