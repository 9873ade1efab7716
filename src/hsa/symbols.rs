// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! The functions of the HSA runtime that this driver calls: one list, from which the table is made.

use std::ffi::CString;

use hsa_abi::pfn;

/// Makes the table. A library is usable if it has every required function; an optional one may be absent.
macro_rules! symbols {
    (required { $($required:ident)* } optional { $($optional:ident)* }) => {
        /// Functions of one loaded library. They stay callable for the life of the process, as the library is never
        /// unloaded.
        #[derive(Clone, Copy, Debug)]
        pub(super) struct Symbols {
            $(pub $required: pfn::$required,)*
            $(pub $optional: Option<pfn::$optional>,)*
        }

        /// Names of the functions without which a library cannot be used.
        #[cfg(any(test, feature = "testing"))]
        pub const REQUIRED_SYMBOLS: &[&str] = &[$(stringify!($required)),*];

        impl Symbols {
            /// Looks up every function. The error names all required ones that `library` lacks.
            ///
            /// # Safety
            /// `library` must be an HSA runtime, so that its exports of these names have these types, and it
            /// must not be unloaded while the table is in use.
            pub unsafe fn load(library: &libloading::Library) -> Result<Self, Vec<&'static str>> {
                let mut missing = Vec::new();
                $(
                    // SAFETY: the caller says that an export of this name has this type.
                    let $required = unsafe { find::<pfn::$required>(library, stringify!($required)) };
                    if $required.is_none() {
                        missing.push(stringify!($required));
                    }
                )*
                match ($($required,)*) {
                    ($(Some($required),)*) => Ok(Self {
                        $($required,)*
                        // SAFETY: the caller says so of these exports, too.
                        $($optional: unsafe { find::<pfn::$optional>(library, stringify!($optional)) },)*
                    }),
                    _ => Err(missing),
                }
            }
        }
    };
}

symbols! {
    required {
        hsa_init
        hsa_shut_down
        hsa_system_get_info
        hsa_iterate_agents
        hsa_agent_get_info
        hsa_agent_iterate_isas
        hsa_isa_get_info_alt
        hsa_amd_agent_iterate_memory_pools
        hsa_amd_memory_pool_get_info
        hsa_amd_agent_memory_pool_get_info
        hsa_amd_memory_pool_allocate
        hsa_amd_memory_pool_free
        hsa_amd_agents_allow_access
        hsa_amd_memory_lock
        hsa_amd_memory_unlock
        hsa_amd_pointer_info
        hsa_amd_signal_create
        hsa_signal_destroy
        hsa_signal_load_scacquire
        hsa_signal_store_screlease
        hsa_signal_wait_scacquire
        hsa_queue_create
        hsa_queue_destroy
        hsa_queue_inactivate
        hsa_code_object_reader_create_from_memory
        hsa_code_object_reader_destroy
        hsa_executable_create_alt
        hsa_executable_destroy
        hsa_executable_load_agent_code_object
        hsa_executable_freeze
        hsa_executable_get_symbol_by_name
        hsa_executable_symbol_get_info
    }
    optional {
        hsa_system_get_major_extension_table
        hsa_amd_profiling_set_profiler_enabled
        hsa_memory_copy
        hsa_amd_memory_async_copy
        hsa_amd_profiling_get_dispatch_time
        hsa_amd_register_system_event_handler
        hsa_amd_ipc_memory_create
        hsa_amd_ipc_memory_attach
        hsa_amd_ipc_memory_detach
        hsa_amd_portable_export_dmabuf
        hsa_amd_interop_map_buffer
        hsa_amd_interop_unmap_buffer
        hsa_sim_last_fault
        hsa_sim_memory_part_gap
        hsa_sim_memory_part_begin
        hsa_sim_memory_part_end
    }
}

/// The export `name` of `library`, as a function of type `F`.
///
/// # Safety
/// `F` must be the type of the function that the library exports under this name.
unsafe fn find<F: Copy>(library: &libloading::Library, name: &str) -> Option<F> {
    let name = CString::new(name).ok()?;
    // SAFETY: the caller vouches for the type; the value is copied out, and the library outlives it.
    unsafe { library.get::<F>(name.as_bytes_with_nul()) }.ok().map(|symbol| *symbol)
}
