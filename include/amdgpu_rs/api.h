// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// amdgpu_rs for embedders: IREE's HAL on AMD GPUs through HSA.
//
// Programs that take flags register the driver with
// amdgpu_rs/driver_module.h instead, which fills the options from them.

#ifndef AMDGPU_RS_API_H_
#define AMDGPU_RS_API_H_

#include "iree/base/api.h"
#include "iree/hal/api.h"

#ifdef __cplusplus
extern "C" {
#endif  // __cplusplus

// Creates the driver: finds and loads the HSA runtime and initializes it.
//
// |identifier| names the driver in messages ("amdgpu_rs"). |options| are
// |option_count| pairs of a knob and its value as text, the same that flags
// (`--amdgpu_rs_<key>=<value>`) and device URIs (`amdgpu_rs://0?<key>=<value>`)
// take; they are the defaults of every device the driver makes, which its URI
// may override. Nothing passed is used after the call. The caller owns
// |out_driver| and releases it with iree_hal_driver_release.
//
// Fails with INVALID_ARGUMENT, OUT_OF_RANGE or UNIMPLEMENTED for options that
// cannot be met (an unknown key lists the known ones), with NOT_FOUND when
// there is no HSA runtime and INCOMPATIBLE when there is none that can be used
// (both list each place tried), and with the runtime's errors.
// May be called from any thread.
//
// |host_allocator| outlives the driver and all that is made of it. From it comes
// each object that IREE counts references of: the driver, devices, allocators,
// buffers, semaphores, events, executables, command buffers with the state of
// their validation, files. Other memory of the driver (recordings, lists of
// deferred work, copies of code objects) comes from the C library's malloc.
// No memory of a size that a caller or a file decides is RESOURCE_EXHAUSTED. An
// object of a fixed size, of less than 2 KiB, for which malloc has no memory
// ends the process, as in any Rust program.
IREE_API_EXPORT iree_status_t iree_hal_amdgpu_rs_driver_create(
    iree_string_view_t identifier, iree_host_size_t option_count,
    const iree_string_pair_t* options, iree_allocator_t host_allocator,
    iree_hal_driver_t** out_driver);

// Takes a message that no status can carry: the failure of a resource's end, a
// fault that the runtime told of, a remark on a profile. |message| is text of
// one or several lines without an end, valid during the call.
typedef void(IREE_API_PTR* iree_hal_amdgpu_rs_message_handler_fn_t)(
    void* user_data, iree_string_view_t message);

// Has such messages of all drivers of the process go to |handler|, in place of
// standard error, where they go without one (NULL). |handler| is called from
// any thread, maybe from several at a time, until another one is set and the
// calls under way have returned; it must not call the driver.
IREE_API_EXPORT void iree_hal_amdgpu_rs_set_message_handler(
    iree_hal_amdgpu_rs_message_handler_fn_t handler, void* user_data);

// A C struct that the driver's library was built with, and its size in bytes.
typedef struct iree_hal_amdgpu_rs_struct_size_t {
  const char* name;
  iree_host_size_t size;
} iree_hal_amdgpu_rs_struct_size_t;

// Checks that the caller's IREE headers agree with those that the library was
// built with: fails with INCOMPATIBLE, naming the struct and both sizes, when
// one of the |count| sizes is another or the library does not know it.
// amdgpu_rs/driver_module.h does this for every vtable.
IREE_API_EXPORT iree_status_t iree_hal_amdgpu_rs_verify_struct_sizes(
    iree_host_size_t count, const iree_hal_amdgpu_rs_struct_size_t* sizes);

// Names a buffer's memory for other processes of the machine. The bytes may be
// sent to them by any way; the fields are the driver's own.
typedef struct iree_hal_amdgpu_rs_shared_memory_t {
  uint32_t handle[8];
  uint64_t allocation_size;
  uint64_t size;
} iree_hal_amdgpu_rs_shared_memory_t;

// Makes a name of |buffer|'s memory, with which another process can attach it,
// without a copy (HSA's IPC memory). |allocator| is that of the device that made
// the buffer.
//
// The name is valid as long as the buffer, which must not be released while
// another process has it attached. Semaphores are not shared: the processes tell
// each other, by a means of their own, when work on the memory is complete.
//
// Fails with UNAVAILABLE for anything but a whole buffer of GPU memory from
// iree_hal_allocator_allocate_buffer, and with the HSA runtime's errors.
// May be called from any thread.
IREE_API_EXPORT iree_status_t iree_hal_amdgpu_rs_buffer_share(
    iree_hal_allocator_t* allocator, iree_hal_buffer_t* buffer,
    iree_hal_amdgpu_rs_shared_memory_t* out_memory);

// Attaches |memory| of another process as a buffer. The GPU that owns the memory
// must be a GPU of |allocator|'s device; |params| are those of an import as
// IREE_HAL_EXTERNAL_BUFFER_TYPE_DEVICE_ALLOCATION. The last release of the buffer
// detaches the memory. The other process must still run at the call.
//
// Fails with INVALID_ARGUMENT for bytes that are no such name, and with the HSA
// runtime's error when the memory is gone. May be called from any thread.
IREE_API_EXPORT iree_status_t iree_hal_amdgpu_rs_buffer_attach(
    iree_hal_allocator_t* allocator, iree_hal_buffer_params_t params,
    const iree_hal_amdgpu_rs_shared_memory_t* memory,
    iree_hal_buffer_t** out_buffer);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  // AMDGPU_RS_API_H_
