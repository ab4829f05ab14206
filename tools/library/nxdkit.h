/* nxdkit from C, and from whatever calls C: checkpoints of every layout that the commands read,
 * tensor by tensor; what a rank of another layout will hold; every command as a call; tensors in
 * memory in the place of files.
 *
 *   nxdkit_source *run;
 *   char *reply;
 *   int code = nxdkit_open("{\"path\": \"runs/grpo\"}", NULL, NULL, &run, &reply);
 *   if (code != 0) { fputs(reply, stderr); nxdkit_free(reply); return code; }
 *   puts(nxdkit_index(run));
 *   nxdkit_read(run, 0, NULL, NULL, NULL, buffer, bytes, &reply);
 *   nxdkit_close(run);
 *
 * Results. A function that returns int returns the exit code of the commands: 0 done and good, 1
 * findings, 2 usage, 3 input missing or damaged, 4 unsupported, 5 input or output failed, 6 a cap
 * cannot be met, 70 an error of the library, 130 the caller stopped it. `*reply` is then a JSON
 * document in UTF-8, ended by a zero byte, as the commands print it with --json (schemas in
 * share/nxdkit/schemas): {"schema_version": 1, "status": "error", "exit_code": 3, "error":
 * {"code": "corrupt", "message": ..., "file": ..., "tensor": ..., "rank": ..., "offset": ...,
 * "hint": ...}}. It belongs to the caller, who gives it to nxdkit_free. nxdkit_run always sets
 * it; the others set it to NULL where they succeed. It is NULL too where memory is too short to
 * say so (6). `reply` itself may be NULL where nobody wants
 * to know.
 *
 * Threads. Every function may be called from any thread. One source may be read by several
 * threads at once; it must not be closed while another call uses it. A call may start threads of
 * its own, which have ended when it returns. A process may fork between calls; a child must not
 * use a source that was opened before, as its locks may be held by threads that the child does
 * not have.
 *
 * The library never exits, prints, installs a signal handler, or changes locale, umask or working
 * folder; nxdkit_main alone does what a program does. A failed check of the library's own (an
 * error of ours, never one of the input) aborts the process. Progress and Ctrl-C: see
 * nxdkit_progress.
 *
 * What a caller sees of its own process: SIGPIPE and SIGXFSZ end it, unless it ignores them, as
 * Python does. Programs that a command starts (a compiler, cache collect's program) have its
 * standard output and error where the command gives them no file; their exit codes are lost where
 * SIGCHLD is ignored or another thread waits for every child. */
#ifndef NXDKIT_H_
#define NXDKIT_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define NXDKIT_API __attribute__((visibility("default")))
#else
#define NXDKIT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The number of this interface. It grows by one whenever a function changes, and not when one
 * comes. */
#define NXDKIT_ABI 1
NXDKIT_API uint32_t nxdkit_abi(void);

/* "0.1.0". Static. */
NXDKIT_API const char* nxdkit_version(void);

/* Tensors that can be read, wherever they are: an artifact, a rank of a layout, memory. */
typedef struct nxdkit_source nxdkit_source;

/* Called on the thread that called the library, at least every 100 ms while a call with it runs,
 * also while that call waits. `phase` is what is being done ("writing"), "" before the first; of
 * it `done` of `total` bytes are done (0: not known). `message`: NULL, or a line that the command
 * would print as it goes, in UTF-8. Both texts are the library's, for the time of the call.
 * Another return value than 0 stops the work: the call cleans up and returns 130. May call nxdkit
 * functions. */
typedef int (*nxdkit_progress)(void* context, const char* phase, uint64_t done, uint64_t total,
                               const char* message);

/* Runs a command: {"command": "nxd-convert", "arguments": ["shards", {"source": 0}, "bundle"],
 * "options": {"to": "rollout", "tp": 8, "dry_run": true, "xser": false}}. `command` is the name
 * or the word of a command (nxd-convert, convert), but for grpo-train. An argument is a text, or
 * a source of `sources` (`source_count` of them), where the command takes an artifact to read.
 * Options are those of the command, `_` for `-`: a text, a number, true and false for flags
 * (false of a flag that has no --no- form: not given), a list for options that repeat, {"source":
 * N} where an artifact is named; null: not given. The answer is the command's --json document. */
NXDKIT_API int nxdkit_run(const char* request, nxdkit_source* const* sources, size_t source_count,
                          nxdkit_progress progress, void* context, char** reply);

/* Opens an artifact: {"path": "shards", "options": {"from": "nxd", "config": "config.json"}}; the
 * options are ckpt-digest's of what it reads. Structure is read and laid out, no values.
 * `*source` is NULL on failure. The first parameters are the model's; {"optimizer": true} adds
 * the state of training. */
NXDKIT_API int nxdkit_open(const char* request, nxdkit_progress progress, void* context,
                           nxdkit_source** source, char** reply);

/* Tensors in the caller's memory: {"name": "the trainer", "layout": "hf", "options": {"config":
 * "model/config.json"}, "tensors": [{"name": "model.norm.weight", "dtype": "BF16", "shape":
 * [64]}, ...]}. `data[i]` is the first element of tensors[i]; the bytes are read whenever the
 * source is, and must stay until it is closed. "strides" (in elements, not negative) where they
 * are not row-major. With "layout": "nxd" each tensor has its "rank" (and "pp_rank"), and the
 * tensors are those of the shards. */
NXDKIT_API int nxdkit_open_memory(const char* request, const void* const* data,
                                  nxdkit_source** source, char** reply);

/* What one rank of a layout holds of the weights of `of`, made when it is read: {"layout":
 * "vllm", "rank": 3, "options": {"tp": 8}}. `layout`: a format that nxd-convert writes, with its
 * options, "vllm" or "vllm-neuron"; "pp_rank" and "ep_rank" where they are not 0. `of` may be
 * closed before the new one. */
NXDKIT_API int nxdkit_open_rank(nxdkit_source* of, const char* request, nxdkit_source** source,
                                char** reply);

/* What a source holds, as JSON: {"path", "format", "model_type", "parallel": {"tp", "pp", "ep"},
 * "tensors": [{"name", "dtype", "shape"}, ...], "config", "config_path", "files", "file_bytes",
 * "warnings", "chosen"}. The source's own: it goes with it. */
NXDKIT_API const char* nxdkit_index(const nxdkit_source* source);

/* Reads a box of tensor `tensor` (its number in the index): of each dimension the elements begin,
 * begin + step, ... before end, packed row-major, into `to`, which has room for `bytes` bytes:
 * exactly the box. NULL for `begin`, `end` or `step`: 0, the tensor's own length, 1. 0 <= begin
 * <= end <= length, step >= 1. On failure what is in `to` is undefined. 3 where a file has
 * changed since it was opened. */
NXDKIT_API int nxdkit_read(const nxdkit_source* source, uint64_t tensor, const int64_t* begin,
                           const int64_t* end, const int64_t* step, void* to, uint64_t bytes,
                           char** reply);

/* Where the elements of a tensor come from, as `nxd-convert --explain` prints it, into `*text`,
 * which is for nxdkit_free. */
NXDKIT_API int nxdkit_explain(const nxdkit_source* source, uint64_t tensor, char** text,
                              char** reply);

/* NULL is fine for both. */
NXDKIT_API void nxdkit_close(nxdkit_source* source);
NXDKIT_API void nxdkit_free(void* text);

/* The commands' main(): `name` is a command, or "nxdkit", whose first argument is then the word
 * of one. For programs alone: it prints, and installs signal handlers. Returns the exit code. */
NXDKIT_API int nxdkit_main(const char* name, int argc, char** argv);

#ifdef __cplusplus
}
#endif

#endif /* NXDKIT_H_ */
