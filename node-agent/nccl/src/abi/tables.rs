//! The tables by the names under which NCCL looks for them.
#![allow(non_upper_case_globals, reason = "NCCL looks for these names")]

use super::entry;
use super::types::{NetV8, NetV9, NetV10, NetV11, NetV12};
use super::versions;

/// A table: what all versions have alike, and what this one has of its own.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident: $type:ident { $($field:ident: $value:expr),* $(,)? }) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub static $name: $type = $type {
            name: versions::NAME,
            devices: Some(entry::devices),
            accept: Some(entry::accept),
            reg_mr: Some(entry::reg_mr),
            reg_mr_dma_buf: Some(entry::reg_mr_dma_buf),
            dereg_mr: Some(entry::dereg_mr),
            iflush: Some(entry::iflush),
            test: Some(entry::test),
            close_send: Some(entry::close_send),
            close_recv: Some(entry::close_recv),
            close_listen: Some(entry::close_listen),
            // Nothing is done in the GPU's own code.
            get_device_mr: None,
            irecv_consumed: None,
            $($field: $value),*
        };
    };
}

table! {
    /// NCCL's interface, version 8.
    ncclNetPlugin_v8: NetV8 {
        init: Some(versions::init_v8),
        get_properties: Some(versions::get_properties_v8),
        listen: Some(versions::listen_v8),
        connect: Some(versions::connect_v8),
        isend: Some(versions::isend_v8),
        irecv: Some(versions::irecv_v8),
    }
}
table! {
    /// NCCL's interface, version 9.
    ncclNetPlugin_v9: NetV9 {
        init: Some(versions::init_v8),
        get_properties: Some(versions::get_properties_v9),
        listen: Some(versions::listen_v8),
        connect: Some(versions::connect_v8),
        isend: Some(versions::isend_v9),
        irecv: Some(versions::irecv_v9),
        make_virtual_device: None,
    }
}
table! {
    /// NCCL's interface, version 10.
    ncclNetPlugin_v10: NetV10 {
        init: Some(versions::init_v10),
        get_properties: Some(versions::get_properties_v9),
        listen: Some(versions::listen_v8),
        connect: Some(versions::connect_v10),
        isend: Some(versions::isend_v10),
        irecv: Some(versions::irecv_v10),
        make_virtual_device: None,
    }
}
table! {
    /// NCCL's interface, version 11.
    ncclNetPlugin_v11: NetV11 {
        init: Some(versions::init_v11),
        get_properties: Some(versions::get_properties_v11),
        listen: Some(versions::listen_v11),
        connect: Some(versions::connect_v11),
        isend: Some(versions::isend_v10),
        irecv: Some(versions::irecv_v10),
        make_virtual_device: None,
        finalize: Some(versions::finalize),
        set_net_attr: Some(versions::set_net_attr),
    }
}
table! {
    /// NCCL's interface, version 12.
    ncclNetPlugin_v12: NetV12 {
        init: Some(versions::init_v11),
        get_properties: Some(versions::get_properties_v12),
        listen: Some(versions::listen_v11),
        connect: Some(versions::connect_v11),
        isend: Some(versions::isend_v10),
        irecv: Some(versions::irecv_v10),
        make_virtual_device: None,
        finalize: Some(versions::finalize),
        set_net_attr: Some(versions::set_net_attr),
    }
}
