//! Queue pairs, and what is posted on them: messages, receives, and windows of memory.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use super::{Cq, Mr, Mw, Pd, given};
use crate::ffi;
use crate::library::checked;

/// What a queue pair is made with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Depths {
    pub(crate) send: u32,
    pub(crate) receive: u32,
    pub(crate) inline: u32,
}

/// Most parts of a message: headers and payloads take turns.
pub(crate) const MOST_PARTS: usize = 4;

/// A part of a message.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) memory: Arc<Mr>,
    pub(crate) offset: usize,
    pub(crate) length: usize,
}

impl Part {
    /// As the library takes it, if it lies in its memory.
    fn sge(&self) -> Option<ffi::Sge> {
        let end = self.offset.checked_add(self.length)?;
        let length = u32::try_from(self.length).ok().filter(|_| end <= self.memory.memory.len())?;
        let addr = self.memory.address() + self.offset as u64;
        Some(ffi::Sge { addr, length, lkey: self.memory.keys().0 })
    }
}

/// One message: bytes of memories here, one behind the other, into the peer's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write<'a> {
    pub(crate) id: u64,
    /// At most [`MOST_PARTS`]; inline if they are together at most what the queue pair takes.
    pub(crate) parts: &'a [Part],
    /// Address in the peer's memory that is written to.
    pub(crate) remote: u64,
    pub(crate) rkey: u32,
    pub(crate) imm: u32,
}

/// A request that names nothing.
const NO_REQUEST: ffi::SendWr = ffi::SendWr {
    wr_id: 0,
    next: null_mut(),
    sg_list: null_mut(),
    num_sge: 0,
    opcode: 0,
    send_flags: 0,
    imm_data: 0,
    remote_addr: 0,
    rkey: 0,
    rest: [0; 3],
    bind_mw: null_mut(),
    bind_rkey: 0,
    bind_info: ffi::MwBindInfo { mr: null_mut(), addr: 0, length: 0, mw_access_flags: 0 },
};

/// A queue pair of the type reliable connection (RC), destroyed when it is dropped.
#[derive(Debug)]
pub(crate) struct Qp {
    raw: NonNull<ffi::Qp>,
    pd: Arc<Pd>,
    _queues: [Arc<Cq>; 2],
    /// What the peer writes into: there until after it is gone.
    _ring: Arc<Mr>,
    /// What messages under way are sent from, by their ids, the oldest first: there until they are done, or it is gone.
    under_way: VecDeque<(u64, Vec<Arc<Mr>>)>,
    /// Messages of this many bytes are handed over with their bytes.
    inline: usize,
}

// SAFETY: as for `Context`.
unsafe impl Send for Qp {}
// SAFETY: as for `Context`; its number does not change.
unsafe impl Sync for Qp {}

impl Qp {
    /// Makes one, of as many inline bytes as the device has up to those asked for. `ring` is what the peer may write into.
    pub(crate) fn new(
        pd: &Arc<Pd>,
        (send, receive): (&Arc<Cq>, &Arc<Cq>),
        ring: &Arc<Mr>,
        depths: Depths,
    ) -> io::Result<Self> {
        let mut attributes = ffi::QpInitAttr {
            qp_context: null_mut(),
            send_cq: send.raw.as_ptr(),
            recv_cq: receive.raw.as_ptr(),
            srq: null_mut(),
            cap: ffi::QpCap {
                max_send_wr: depths.send,
                max_recv_wr: depths.receive,
                max_send_sge: MOST_PARTS as u32,
                max_recv_sge: 1,
                max_inline_data: depths.inline,
            },
            qp_type: ffi::QPT_RC,
            sq_sig_all: 0,
        };
        let create = pd.context.library.functions.create_qp;
        // SAFETY: protection domain and queues are there and of one context; the attributes are ours.
        let mut raw = unsafe { create(pd.raw.as_ptr(), &mut attributes) };
        let mut inline = depths.inline;
        if raw.is_null() && inline > 0 {
            inline = 0;
            attributes.cap.max_inline_data = 0;
            // SAFETY: as above.
            raw = unsafe { create(pd.raw.as_ptr(), &mut attributes) };
        }
        Ok(Qp {
            raw: given(raw)?,
            pd: Arc::clone(pd),
            _queues: [Arc::clone(send), Arc::clone(receive)],
            _ring: Arc::clone(ring),
            under_way: VecDeque::new(),
            inline: inline as usize,
        })
    }

    /// The queue pair's number on its device (`qp_num`), 24 bits.
    pub(crate) fn number(&self) -> u32 {
        // SAFETY: the library made it with this layout; it lives until `self` is dropped.
        unsafe { self.raw.as_ref() }.qp_num
    }

    /// Changes what the mask names.
    pub(crate) fn modify(&self, attributes: &ffi::QpAttr, mask: c_int) -> io::Result<()> {
        let mut attributes = *attributes;
        // SAFETY: the queue pair is there; the attributes are ours.
        checked(unsafe {
            (self.pd.context.library.functions.modify_qp)(self.raw.as_ptr(), &mut attributes, mask)
        })
    }

    /// Lets one more message come in; their bytes go where their sender says, within what it may write.
    pub(crate) fn expect(&self, id: u64) -> io::Result<()> {
        let post = self.pd.context.get().ops.post_recv;
        let post = post.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        let mut request = ffi::RecvWr { wr_id: id, next: null_mut(), sg_list: null_mut(), num_sge: 0 };
        let mut bad = null_mut();
        // SAFETY: the queue pair is there; the request names no memory and is only read during the call.
        checked(unsafe { post(self.raw.as_ptr(), &mut request, &mut bad) })
    }

    /// Sends a message. Its memories are held until [`Qp::done`] is called for it.
    pub(crate) fn write(&mut self, write: &Write<'_>) -> io::Result<()> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
        let mut pieces: [ffi::Sge; MOST_PARTS] = Default::default();
        for (at, part) in write.parts.iter().enumerate() {
            let piece = part.sge().filter(|_| Arc::ptr_eq(&part.memory.pd, &self.pd)).ok_or_else(wrong)?;
            *pieces.get_mut(at).ok_or_else(wrong)? = piece;
        }
        let post = self.pd.context.get().ops.post_send;
        let post = post.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        let length: usize = write.parts.iter().map(|part| part.length).sum();
        // The library itself reads what goes inline.
        let inline =
            length > 0 && length <= self.inline && write.parts.iter().all(|part| part.memory.is_of_host());
        let mut request = ffi::SendWr {
            wr_id: write.id,
            sg_list: pieces.as_mut_ptr(),
            num_sge: write.parts.len() as c_int,
            opcode: ffi::WR_RDMA_WRITE_WITH_IMM,
            send_flags: ffi::SEND_SIGNALED | if inline { ffi::SEND_INLINE } else { 0 },
            imm_data: write.imm.to_be(),
            remote_addr: write.remote,
            rkey: write.rkey,
            ..NO_REQUEST
        };
        let mut bad = null_mut();
        // SAFETY: the queue pair is there; request and pieces are only read during the call, and there are as many pieces as it says.
        // The bytes that they name lie in registered memories, checked above, which are held below until the device says that it is
        // done with the message, or until after the queue pair is gone: the device reads them later, and for inline ones the library
        // reads them now, as bytes of mappings that nobody has a reference into.
        checked(unsafe { post(self.raw.as_ptr(), &mut request, &mut bad) })?;
        if !write.parts.is_empty() {
            let memories = write.parts.iter().map(|part| Arc::clone(&part.memory)).collect();
            self.under_way.push_back((write.id, memories));
        }
        Ok(())
    }

    /// Has the peer of this queue pair, and nobody else, write all of a memory with the key of a window. In force when its completion
    /// comes.
    pub(crate) fn bind(&self, window: &mut Mw, memory: &Arc<Mr>, id: u64) -> io::Result<()> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
        if !Arc::ptr_eq(&window.pd, &self.pd) || !Arc::ptr_eq(&memory.pd, &self.pd) || window.bound.is_some()
        {
            return Err(wrong());
        }
        let post = self.pd.context.get().ops.post_send;
        let post = post.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?;
        let mut request = ffi::SendWr {
            wr_id: id,
            opcode: ffi::WR_BIND_MW,
            send_flags: ffi::SEND_SIGNALED,
            bind_mw: window.raw.as_ptr(),
            bind_rkey: window.rkey,
            bind_info: ffi::MwBindInfo {
                mr: memory.raw.as_ptr(),
                addr: memory.address(),
                length: memory.memory.len() as u64,
                mw_access_flags: ffi::ACCESS_REMOTE_WRITE,
            },
            ..NO_REQUEST
        };
        window.bound = Some(Arc::clone(memory));
        let mut bad = null_mut();
        // SAFETY: queue pair, window and memory are there and of one protection domain; the request is only read during the call. The
        // window holds the memory from now on until it is given back.
        checked(unsafe { post(self.raw.as_ptr(), &mut request, &mut bad) })
    }

    /// The device is done with a message, and so with all before it: it does them in order.
    pub(crate) fn done(&mut self, id: u64) {
        if let Some(at) = self.under_way.iter().position(|(under_way, _)| *under_way == id) {
            self.under_way.drain(..=at);
        }
    }
}

impl Drop for Qp {
    fn drop(&mut self) {
        // SAFETY: it is destroyed once; queues and memory are dropped after this.
        let code = unsafe { (self.pd.context.library.functions.destroy_qp)(self.raw.as_ptr()) };
        if code != 0 {
            tracing::warn!(code, "a queue pair could not be given back");
        }
    }
}
