/* Runs a compiled model on ones: what goes in, what comes out.

       anfora compile mlp.onnx -o mlp.anf
       example mlp.anf */
#include <anfora/runtime.h>
#include <stdio.h>
#include <stdlib.h>

static int fail(void) {
  fprintf(stderr, "example: %s\n", anfora_error_message());
  if (anfora_error_hint()[0]) fprintf(stderr, "  hint: %s\n", anfora_error_hint());
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: example MODEL.anf\n");
    return 2;
  }
  anfora_executable* model;
  if (anfora_load(argv[1], 1, &model) != ANFORA_OK) return fail();

  anfora_value_info info;
  if (anfora_input(model, 0, &info) != ANFORA_OK) return fail();
  printf("input  %s: %s\n", info.name, info.type_text);
  if (anfora_num_inputs(model) != 1 || info.type != ANFORA_F32 || info.rank != 2) {
    fprintf(stderr, "example: this model takes something else than one matrix of floats\n");
    return 1;
  }
  int64_t shape[2];
  for (int axis = 0; axis < 2; ++axis) shape[axis] = info.shape[axis] == ANFORA_UNKNOWN_SIZE ? 1 : info.shape[axis];
  const size_t count = (size_t)(shape[0] * shape[1]);
  float* ones = malloc(count * sizeof(float));
  for (size_t i = 0; i < count; ++i) ones[i] = 1;

  const anfora_tensor input = {ANFORA_F32, 2, shape, ones, NULL};
  anfora_tensor output = {0}; /* made by the run */
  if (anfora_run(model, &input, 1, &output, 1) != ANFORA_OK) return fail();
  if (anfora_output(model, 0, &info) != ANFORA_OK) return fail();
  printf("output %s: %s", info.name, info.type_text);
  int64_t elements = output.type == ANFORA_F32 ? 1 : 0;
  for (int axis = 0; axis < output.rank; ++axis) elements *= output.shape[axis];
  for (int64_t i = 0; i < elements && i < 8; ++i) printf(" %g", ((const float*)output.data)[i]);
  printf("\n");

  /* Once more, into the same memory: nothing is allocated. */
  if (anfora_run(model, &input, 1, &output, 1) != ANFORA_OK) return fail();
  anfora_release(&output);
  free(ones);
  anfora_free(model);
  return 0;
}
