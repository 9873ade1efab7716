// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

//! Status codes (HSA Runtime 2.2.1 `hsa_status_t`; AMD's own from `hsa_ext_amd.h`).

c_enum! {
    /// `hsa_status_t`: the result of every HSA function that can fail.
    #[must_use]
    HsaStatus: u32 {
        /// The function succeeded.
        SUCCESS = 0x0,
        /// A callback asked an iteration to stop early; not an error.
        INFO_BREAK = 0x1,
        /// AMD: the memory pool is invalid.
        ERROR_INVALID_MEMORY_POOL = 40,
        /// AMD: a wave accessed memory outside of an aperture.
        ERROR_MEMORY_APERTURE_VIOLATION = 41,
        /// AMD: a wave executed an illegal instruction.
        ERROR_ILLEGAL_INSTRUCTION = 42,
        /// AMD: a memory fault, such as an access to an unmapped page.
        ERROR_MEMORY_FAULT = 43,
        /// AMD: the CU mask was reduced to the device's compute units.
        CU_MASK_REDUCED = 44,
        /// AMD: a kernel needs more registers than there are.
        ERROR_OUT_OF_REGISTERS = 45,
        /// AMD: the resource is in use.
        ERROR_RESOURCE_BUSY = 46,
        /// An unspecified error.
        ERROR = 0x1000,
        /// An argument violates a stated requirement.
        ERROR_INVALID_ARGUMENT = 0x1001,
        /// The requested queue cannot be created.
        ERROR_INVALID_QUEUE_CREATION = 0x1002,
        /// The requested allocation is invalid.
        ERROR_INVALID_ALLOCATION = 0x1003,
        /// The agent is invalid.
        ERROR_INVALID_AGENT = 0x1004,
        /// The memory region is invalid.
        ERROR_INVALID_REGION = 0x1005,
        /// The signal is invalid.
        ERROR_INVALID_SIGNAL = 0x1006,
        /// The queue is invalid.
        ERROR_INVALID_QUEUE = 0x1007,
        /// A resource could not be allocated.
        ERROR_OUT_OF_RESOURCES = 0x1008,
        /// An AQL packet is malformed.
        ERROR_INVALID_PACKET_FORMAT = 0x1009,
        /// An error while releasing a resource.
        ERROR_RESOURCE_FREE = 0x100A,
        /// The runtime is not initialised.
        ERROR_NOT_INITIALIZED = 0x100B,
        /// The runtime's reference count would overflow.
        ERROR_REFCOUNT_OVERFLOW = 0x100C,
        /// The arguments do not go together.
        ERROR_INCOMPATIBLE_ARGUMENTS = 0x100D,
        /// The index is invalid.
        ERROR_INVALID_INDEX = 0x100E,
        /// The instruction set architecture is invalid.
        ERROR_INVALID_ISA = 0x100F,
        /// The code object is invalid.
        ERROR_INVALID_CODE_OBJECT = 0x1010,
        /// The executable is invalid.
        ERROR_INVALID_EXECUTABLE = 0x1011,
        /// The executable is frozen.
        ERROR_FROZEN_EXECUTABLE = 0x1012,
        /// There is no symbol of this name.
        ERROR_INVALID_SYMBOL_NAME = 0x1013,
        /// The variable is already defined.
        ERROR_VARIABLE_ALREADY_DEFINED = 0x1014,
        /// The variable is undefined.
        ERROR_VARIABLE_UNDEFINED = 0x1015,
        /// An HSAIL operation raised a hardware exception.
        ERROR_EXCEPTION = 0x1016,
        /// The name of the instruction set architecture is invalid.
        ERROR_INVALID_ISA_NAME = 0x1017,
        /// The code symbol is invalid.
        ERROR_INVALID_CODE_SYMBOL = 0x1018,
        /// The executable symbol is invalid.
        ERROR_INVALID_EXECUTABLE_SYMBOL = 0x1019,
        /// The file descriptor is invalid.
        ERROR_INVALID_FILE = 0x1020,
        /// The code object reader is invalid.
        ERROR_INVALID_CODE_OBJECT_READER = 0x1021,
        /// The cache is invalid.
        ERROR_INVALID_CACHE = 0x1022,
        /// The wavefront is invalid.
        ERROR_INVALID_WAVEFRONT = 0x1023,
        /// The signal group is invalid.
        ERROR_INVALID_SIGNAL_GROUP = 0x1024,
        /// The runtime is not in a state that allows the call.
        ERROR_INVALID_RUNTIME_STATE = 0x1025,
        /// The queue met an error that the process cannot recover from.
        ERROR_FATAL = 0x1026,
    }
}

impl HsaStatus {
    /// True for [`SUCCESS`](Self::SUCCESS) and [`INFO_BREAK`](Self::INFO_BREAK).
    pub const fn is_ok(self) -> bool {
        self.0 <= Self::INFO_BREAK.0
    }
}
