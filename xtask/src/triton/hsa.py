# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs kernels on the first GPU of an HSA library, one at a time.

Constants and structures are those of hsa.h and hsa_ext_amd.h."""

import ctypes
import os
from ctypes import byref, c_char_p, c_int64, c_size_t, c_uint16, c_uint32, c_uint64, c_void_p

AGENT_INFO_DEVICE = 17
DEVICE_TYPE_CPU, DEVICE_TYPE_GPU = 0, 1
POOL_INFO_SEGMENT, POOL_INFO_GLOBAL_FLAGS = 0, 1
SEGMENT_GLOBAL = 0
FLAG_KERNARG, FLAG_COARSE_GRAINED = 1, 4
SYMBOL_KERNEL_OBJECT, SYMBOL_KERNARG_SIZE, SYMBOL_GROUP_SIZE, SYMBOL_PRIVATE_SIZE = 22, 11, 13, 14
PROFILE_FULL, QUEUE_TYPE_SINGLE = 1, 1
CONDITION_LT, WAIT_BLOCKED = 2, 0
PACKET_KERNEL_DISPATCH = 2
SCOPE_SYSTEM = 2
STATUS_INFO_BREAK = 1

QUEUE_ERROR = ctypes.CFUNCTYPE(None, c_uint32, c_void_p, c_void_p)
ON_HANDLE = ctypes.CFUNCTYPE(c_uint32, c_uint64, c_void_p)


class Queue(ctypes.Structure):
    """The beginning of hsa_queue_t."""

    _fields_ = [("type", c_uint32), ("features", c_uint32), ("base", c_uint64), ("doorbell", c_uint64), ("size", c_uint32)]


class Packet(ctypes.Structure):
    """hsa_kernel_dispatch_packet_t."""

    _fields_ = [
        ("header", c_uint16),
        ("setup", c_uint16),
        ("workgroup", c_uint16 * 3),
        ("reserved0", c_uint16),
        ("grid", c_uint32 * 3),
        ("private_size", c_uint32),
        ("group_size", c_uint32),
        ("kernel_object", c_uint64),
        ("kernarg", c_uint64),
        ("reserved1", c_uint64),
        ("completion", c_uint64),
    ]


@QUEUE_ERROR
def on_queue_error(status, _queue, _data):
    print(f"the queue stopped: status {status:#x}", flush=True)
    os._exit(1)


class Gpu:
    """The first GPU of the library at `path`, with a queue and one code object. Freed with the process."""

    def __init__(self, path, code_object, kernel):
        self.library = ctypes.CDLL(path)
        self.call("hsa_init")
        self.cpu, self.agent = self.find_agent(DEVICE_TYPE_CPU), self.find_agent(DEVICE_TYPE_GPU)
        self.host_pool = self.find_pool(self.cpu, FLAG_KERNARG)
        self.gpu_pool = self.find_pool(self.agent, FLAG_COARSE_GRAINED)
        queue = ctypes.POINTER(Queue)()
        largest = c_uint32(0xFFFFFFFF)
        self.call(
            "hsa_queue_create",
            c_uint64(self.agent), c_uint32(64), c_uint32(QUEUE_TYPE_SINGLE), on_queue_error, None, largest, largest, byref(queue),
        )  # fmt: skip
        self.queue = queue
        self.done = c_uint64()
        self.call("hsa_signal_create", c_int64(1), c_uint32(0), None, byref(self.done))
        self.load(code_object, kernel)

    def call(self, name, *arguments):
        status = getattr(self.library, name)(*arguments)
        if status not in (0, STATUS_INFO_BREAK):
            text = c_char_p()
            self.library.hsa_status_string(c_uint32(status), byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'unknown status').decode()}")

    def iterate(self, name, *arguments):
        handles = []
        callback = ON_HANDLE(lambda handle, _: handles.append(handle) or 0)
        self.call(name, *arguments, callback, None)
        return handles

    def find_agent(self, wanted):
        for agent in self.iterate("hsa_iterate_agents"):
            device = c_uint32()
            self.call("hsa_agent_get_info", c_uint64(agent), c_uint32(AGENT_INFO_DEVICE), byref(device))
            if device.value == wanted:
                return agent
        raise RuntimeError(f"there is no agent of type {wanted}")

    def find_pool(self, agent, wanted):
        for pool in self.iterate("hsa_amd_agent_iterate_memory_pools", c_uint64(agent)):
            segment, flags = c_uint32(), c_uint32()
            self.call("hsa_amd_memory_pool_get_info", c_uint64(pool), c_uint32(POOL_INFO_SEGMENT), byref(segment))
            if segment.value != SEGMENT_GLOBAL:
                continue
            self.call("hsa_amd_memory_pool_get_info", c_uint64(pool), c_uint32(POOL_INFO_GLOBAL_FLAGS), byref(flags))
            if flags.value & wanted:
                return pool
        raise RuntimeError(f"there is no memory pool with flag {wanted}")

    def load(self, code_object, kernel):
        reader, executable, symbol = c_uint64(), c_uint64(), c_uint64()
        # The library reads the bytes as long as the executable lives.
        self.code_object = code_object
        agent = c_uint64(self.agent)
        size = c_size_t(len(code_object))
        self.call("hsa_code_object_reader_create_from_memory", c_char_p(code_object), size, byref(reader))
        self.call("hsa_executable_create_alt", c_uint32(PROFILE_FULL), c_uint32(0), None, byref(executable))
        self.call("hsa_executable_load_agent_code_object", executable, agent, reader, None, None)
        self.call("hsa_executable_freeze", executable, None)
        self.call("hsa_executable_get_symbol_by_name", executable, c_char_p(f"{kernel}.kd".encode()), byref(agent), byref(symbol))

        def info(attribute, kind):
            value = kind()
            self.call("hsa_executable_symbol_get_info", symbol, c_uint32(attribute), byref(value))
            return value.value

        self.kernel_object = info(SYMBOL_KERNEL_OBJECT, c_uint64)
        self.kernarg_size = info(SYMBOL_KERNARG_SIZE, c_uint32)
        self.group_size = info(SYMBOL_GROUP_SIZE, c_uint32)
        self.private_size = info(SYMBOL_PRIVATE_SIZE, c_uint32)

    def allocate(self, pool, size):
        address = c_void_p()
        self.call("hsa_amd_memory_pool_allocate", c_uint64(pool), c_size_t(size), c_uint32(0), byref(address))
        self.call("hsa_amd_agents_allow_access", c_uint32(1), byref(c_uint64(self.agent)), None, address)
        return address.value

    def buffer(self, size):
        """The address of uninitialized GPU memory."""
        return self.allocate(self.gpu_pool, size)

    def write(self, address, data):
        staging = self.allocate(self.host_pool, len(data))
        ctypes.memmove(staging, data, len(data))
        self.copy(address, self.agent, staging, self.cpu, len(data))

    def read(self, address, size):
        staging = self.allocate(self.host_pool, size)
        self.copy(staging, self.cpu, address, self.agent, size)
        return ctypes.string_at(staging, size)

    def copy(self, target, target_agent, source, source_agent, size):
        self.library.hsa_signal_store_screlease(self.done, c_int64(1))
        self.call(
            "hsa_amd_memory_async_copy",
            c_void_p(target), c_uint64(target_agent), c_void_p(source), c_uint64(source_agent), c_size_t(size),
            c_uint32(0), None, self.done,
        )  # fmt: skip
        self.wait()

    def wait(self):
        wait = self.library.hsa_signal_wait_scacquire
        wait.restype = c_int64
        while wait(self.done, c_uint32(CONDITION_LT), c_int64(1), c_uint64(2**64 - 1), c_uint32(WAIT_BLOCKED)) >= 1:
            pass

    def run(self, kernargs, grid, workgroup, dynamic_group_size):
        """Runs the kernel to its end on `grid` workgroups of `workgroup` work-items."""
        kernarg = self.allocate(self.host_pool, max(self.kernarg_size, 64))
        ctypes.memmove(kernarg, kernargs, len(kernargs))
        self.library.hsa_signal_store_screlease(self.done, c_int64(1))
        queue = self.queue.contents
        add = self.library.hsa_queue_add_write_index_relaxed
        add.restype = c_uint64
        index = add(self.queue, c_uint64(1))
        slot = queue.base + index % queue.size * ctypes.sizeof(Packet)
        packet = Packet(
            workgroup=(workgroup, 1, 1),
            grid=(grid[0] * workgroup, grid[1], grid[2]),
            private_size=self.private_size,
            group_size=self.group_size + dynamic_group_size,
            kernel_object=self.kernel_object,
            kernarg=kernarg,
            completion=self.done.value,
        )
        ctypes.memmove(slot + 4, ctypes.addressof(packet) + 4, ctypes.sizeof(Packet) - 4)
        header, dimensions = PACKET_KERNEL_DISPATCH | SCOPE_SYSTEM << 9 | SCOPE_SYSTEM << 11, 3
        # The header comes last: it hands the packet to the packet processor.
        c_uint32.from_address(slot).value = header | dimensions << 16
        self.library.hsa_signal_store_screlease(c_uint64(queue.doorbell), c_int64(index))
        self.wait()
