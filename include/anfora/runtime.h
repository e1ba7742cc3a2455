/* Compiled models from C: load and run, with libanfora_runtime alone.

       anfora_executable* model;
       if (anfora_load("mlp.anf", 0, &model) != ANFORA_OK) { puts(anfora_error_message()); exit(1); }
       float x[4] = {1, 1, 1, 1};
       int64_t shape[2] = {1, 4};
       anfora_tensor input = {ANFORA_F32, 2, shape, x}, output = {0};
       if (anfora_run(model, &input, 1, &output, 1) == ANFORA_OK) use(output.data);
       anfora_release(&output);
       anfora_free(model);

   The file is what `anfora compile` wrote. Inputs and outputs go by position. An executable may be run by any number of threads at once;
   what a function takes by pointer must not be changed meanwhile. No function throws or ends the process. */
#ifndef ANFORA_RUNTIME_H
#define ANFORA_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* To C++, too, a number that is none of the names is one to refuse, and no undefined behaviour. */
#ifdef __cplusplus
#define ANFORA_AN_INT : int
#else
#define ANFORA_AN_INT
#endif

/* What a function returns. */
typedef enum anfora_status ANFORA_AN_INT {
  ANFORA_OK = 0,
  ANFORA_INVALID_ARGUMENT,   /* the caller's fault: a wrong position, type or shape, a null pointer */
  ANFORA_INVALID_MODEL,      /* the file is damaged */
  ANFORA_TYPE_MISMATCH,      /* types or shapes inside the model do not fit together */
  ANFORA_UNSUPPORTED,        /* made by another version or for another processor; valid, but not implemented here */
  ANFORA_NOT_FOUND,          /* a file that does not exist */
  ANFORA_IO,                 /* reading failed */
  ANFORA_RESOURCE_EXHAUSTED, /* out of memory */
  ANFORA_INTERNAL            /* a defect of Anfora */
} anfora_status;

/* Element types, with the numbers of ONNX. Elements narrower than a byte take one byte each. */
typedef enum anfora_type ANFORA_AN_INT {
  ANFORA_UNDEFINED = 0, /* of an input or output: any, or no tensor; of a tensor: an input that is left out */
  ANFORA_F32 = 1,
  ANFORA_U8 = 2,
  ANFORA_I8 = 3,
  ANFORA_U16 = 4,
  ANFORA_I16 = 5,
  ANFORA_I32 = 6,
  ANFORA_I64 = 7,
  ANFORA_STRING = 8, /* elements are of anfora_string */
  ANFORA_BOOL = 9,   /* one byte, 0 or 1 */
  ANFORA_F16 = 10,
  ANFORA_F64 = 11,
  ANFORA_U32 = 12,
  ANFORA_U64 = 13,
  ANFORA_C64 = 14,  /* two floats */
  ANFORA_C128 = 15, /* two doubles */
  ANFORA_BF16 = 16,
  ANFORA_F8E4M3FN = 17,
  ANFORA_F8E4M3FNUZ = 18,
  ANFORA_F8E5M2 = 19,
  ANFORA_F8E5M2FNUZ = 20,
  ANFORA_U4 = 21,
  ANFORA_I4 = 22,
  ANFORA_F4E2M1 = 23,
  ANFORA_F8E8M0 = 24,
  ANFORA_U2 = 25,
  ANFORA_I2 = 26,
  ANFORA_F6E2M3 = 27,
  ANFORA_F6E3M2 = 28
} anfora_type;

/* An element of a tensor of strings: bytes, which need not end with a zero. */
typedef struct anfora_string {
  const char* data;
  size_t size;
} anfora_string;

/* A size that only the run tells. */
#define ANFORA_UNKNOWN_SIZE (-1)
/* A rank that only the run tells. */
#define ANFORA_UNKNOWN_RANK (-1)

/* An input or output of a model. The pointers hold as long as the executable. */
typedef struct anfora_value_info {
  const char* name;
  const char* type_text; /* as people write it: "f32[N, 128]" */
  anfora_type type;
  int rank;             /* ANFORA_UNKNOWN_RANK where the model leaves it open, and of what is no tensor */
  const int64_t* shape; /* `rank` sizes, ANFORA_UNKNOWN_SIZE where the model leaves them open */
} anfora_value_info;

/* A dense tensor in row-major order. */
typedef struct anfora_tensor {
  anfora_type type;
  int rank;
  const int64_t* shape; /* `rank` sizes */
  void* data;
  void* owner; /* of a tensor that anfora_run() made; set to NULL by the caller, and by anfora_release() */
} anfora_tensor;

typedef struct anfora_executable anfora_executable;

/* The version of the library: "0.1.0". */
const char* anfora_version(void);
/* Bytes that one element takes in memory; 0 for ANFORA_UNDEFINED and for what is no type. */
size_t anfora_type_bytes(anfora_type type);

/* Why the last function that failed in this thread did: where, and what; and what to do about it, which may be empty. Valid until the
   thread's next failure. */
const char* anfora_error_message(void);
const char* anfora_error_hint(void);

/* Loads a file (.anf). Weights are mapped: it must not be changed in place while it is in use. It is code: load only what you would run.
   `threads`: of kernels; 0: as it was compiled for. On failure *executable is NULL. Free it with anfora_free(), after its last run. */
anfora_status anfora_load(const char* path, int threads, anfora_executable** executable);
void anfora_free(anfora_executable* executable); /* NULL is nothing */

size_t anfora_num_inputs(const anfora_executable* executable);
size_t anfora_num_outputs(const anfora_executable* executable);
anfora_status anfora_input(const anfora_executable* executable, size_t position, anfora_value_info* info);
anfora_status anfora_output(const anfora_executable* executable, size_t position, anfora_value_info* info);

/* Runs the model. `inputs` are read where they lie, and only read, but for those that were donated when the model was compiled. One that has a
   default may be left out: type ANFORA_UNDEFINED, or past `num_inputs`. `num_outputs` is that of the model. An output whose `data` is NULL is
   made: the call fills all of its members, and anfora_release() gives its memory back. One whose `data` is set has the right type and
   shape, shares no memory with an input, and is written to; strings are always made. On failure no output is made, and what is in those
   that were given is unspecified. */
anfora_status anfora_run(const anfora_executable* executable, const anfora_tensor* inputs, size_t num_inputs,
                         anfora_tensor* outputs, size_t num_outputs);
/* Gives back what anfora_run() made, and sets all members to 0; does nothing for other tensors. */
void anfora_release(anfora_tensor* tensor);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
