//! The few calls of MPI that are used, with errors as values. All of `unsafe` that concerns MPI is here.

use crate::world::Library;
use ::mpi::ffi as sys;
use paceline_base::{Error, Peer, Result};
use std::ffi::{c_int, c_void};

/// A communicator: messages of one never meet those of another.
#[derive(Clone, Copy)]
pub(super) struct Communicator(sys::MPI_Comm);

// SAFETY: a handle; MPI was initialised for calls from any thread.
unsafe impl Send for Communicator {}
// SAFETY: as above.
unsafe impl Sync for Communicator {}

/// An operation under way. It is neither copied nor asked again once it is complete: the library may give its handle to the
/// next operation, so that a second owner would wait for another message.
///
/// Dropping one does not end the operation; the buffer must outlive it all the same.
#[must_use]
#[repr(transparent)]
pub(super) struct Request(sys::MPI_Request);

/// What became of a request.
pub(super) enum Tested {
    /// Still under way: to be asked again.
    Pending(Request),
    /// Complete; a receive brought so many bytes.
    Done(usize),
}

// SAFETY: as for `Communicator`.
unsafe impl Send for Request {}

impl Request {
    /// Whether a send is complete.
    pub(super) fn test_sent(mut self) -> Result<Tested> {
        let mut done: c_int = 0;
        // SAFETY: both pointers are valid; whoever made the request keeps its buffer alive until it is complete.
        check("MPI_Test", unsafe { sys::MPI_Test(&mut self.0, &mut done, sys::RSMPI_STATUS_IGNORE) })?;
        Ok(if done == 0 { Tested::Pending(self) } else { Tested::Done(0) })
    }

    /// Whether a receive is complete.
    pub(super) fn test_received(mut self) -> Result<Tested> {
        let mut done: c_int = 0;
        // SAFETY: plain data that the library fills in.
        let mut status: sys::MPI_Status = unsafe { std::mem::zeroed() };
        // SAFETY: as in `test_sent`.
        check("MPI_Test", unsafe { sys::MPI_Test(&mut self.0, &mut done, &mut status) })?;
        if done == 0 {
            return Ok(Tested::Pending(self));
        }
        bytes_of(&status).map(Tested::Done)
    }
}

/// Where a request is kept while it is under way, and nothing otherwise.
#[derive(Default)]
pub(super) struct PendingRequest(Option<Request>);

impl PendingRequest {
    /// A place for the requests of one piece after the other.
    pub(super) fn put(&mut self, request: Request) {
        self.0 = Some(request);
    }

    /// Asks what is kept by `test`: how many bytes came, or `None` while it is under way.
    ///
    /// # Panics
    /// If nothing is under way: it was complete before.
    pub(super) fn ask(&mut self, test: fn(Request) -> Result<Tested>) -> Result<Option<usize>> {
        match test(self.0.take().expect("a request that is under way"))? {
            Tested::Pending(request) => {
                self.0 = Some(request);
                Ok(None)
            }
            Tested::Done(bytes) => Ok(Some(bytes)),
        }
    }
}

fn bytes_of(status: &sys::MPI_Status) -> Result<usize> {
    let mut count: c_int = 0;
    // SAFETY: a status that the library filled in.
    check("MPI_Get_count", unsafe { sys::MPI_Get_count(status, sys::RSMPI_UINT8_T, &mut count) })?;
    Ok(count as usize)
}

/// What a failed call says.
fn check(call: &str, code: c_int) -> Result<()> {
    if code == sys::MPI_SUCCESS as c_int {
        return Ok(());
    }
    let mut text = [0u8; sys::MPI_MAX_ERROR_STRING as usize + 1];
    let mut len: c_int = 0;
    // SAFETY: the buffer is as long as the library may need.
    unsafe { sys::MPI_Error_string(code, text.as_mut_ptr().cast(), &mut len) };
    let text = String::from_utf8_lossy(&text[..(len.max(0) as usize).min(text.len())]);
    let message = format!("{call}: {}; a process or its host is gone", text.trim());
    Err(Error::failure(message).of_peer(Peer::Unknown))
}

impl Communicator {
    /// All processes of the job, with errors as values.
    pub(super) fn world() -> Result<Self> {
        // SAFETY: constants of the library, which is initialised.
        unsafe {
            let world = sys::RSMPI_COMM_WORLD;
            check("MPI_Comm_set_errhandler", sys::MPI_Comm_set_errhandler(world, sys::RSMPI_ERRORS_RETURN))?;
            Ok(Self(world))
        }
    }

    /// The same processes, apart. All of them must call it.
    pub(super) fn duplicate(self) -> Result<Self> {
        // SAFETY: a valid communicator; the handle is filled in.
        unsafe {
            let mut other = sys::RSMPI_COMM_NULL;
            check("MPI_Comm_dup", sys::MPI_Comm_dup(self.0, &mut other))?;
            check("MPI_Comm_set_errhandler", sys::MPI_Comm_set_errhandler(other, sys::RSMPI_ERRORS_RETURN))?;
            Ok(Self(other))
        }
    }

    /// This process.
    pub(super) fn process(self) -> Result<usize> {
        let mut n: c_int = 0;
        // SAFETY: a valid communicator.
        check("MPI_Comm_rank", unsafe { sys::MPI_Comm_rank(self.0, &mut n) })?;
        Ok(n as usize)
    }

    /// Number of processes.
    pub(super) fn processes(self) -> Result<usize> {
        let mut n: c_int = 0;
        // SAFETY: a valid communicator.
        check("MPI_Comm_size", unsafe { sys::MPI_Comm_size(self.0, &mut n) })?;
        Ok(n as usize)
    }

    /// The largest tag that a message may have.
    pub(super) fn largest_tag(self) -> Result<i32> {
        let (mut value, mut found): (*mut c_void, c_int) = (std::ptr::null_mut(), 0);
        // SAFETY: MPI_TAG_UB is an attribute of every communicator; its value is a pointer to an int.
        unsafe {
            let key = sys::MPI_TAG_UB as c_int;
            check("MPI_Comm_get_attr", sys::MPI_Comm_get_attr(self.0, key, (&raw mut value).cast(), &mut found))?;
            Ok(if found == 0 || value.is_null() { 32767 } else { *value.cast::<c_int>() })
        }
    }

    /// Starts to send.
    ///
    /// # Safety
    /// `data` stays valid and unchanged until the request is complete.
    pub(super) unsafe fn send(self, to: usize, tag: i32, data: *const u8, len: usize) -> Result<Request> {
        // SAFETY: a constant of the library.
        let mut request = Request(unsafe { sys::RSMPI_REQUEST_NULL });
        // SAFETY: the caller's promise.
        let code = unsafe {
            sys::MPI_Isend(data.cast(), size(len)?, sys::RSMPI_UINT8_T, to as c_int, tag, self.0, &mut request.0)
        };
        check("MPI_Isend", code)?;
        Ok(request)
    }

    /// Starts to receive at most `len` bytes.
    ///
    /// # Safety
    /// `data` stays valid, and nobody else touches it, until the request is complete.
    pub(super) unsafe fn receive(self, from: usize, tag: i32, data: *mut u8, len: usize) -> Result<Request> {
        // SAFETY: a constant of the library.
        let mut request = Request(unsafe { sys::RSMPI_REQUEST_NULL });
        // SAFETY: the caller's promise.
        let code = unsafe {
            sys::MPI_Irecv(data.cast(), size(len)?, sys::RSMPI_UINT8_T, from as c_int, tag, self.0, &mut request.0)
        };
        check("MPI_Irecv", code)?;
        Ok(request)
    }

    /// A message that has come, whoever sent it: its sender and length.
    pub(super) fn probe(self, tag: i32) -> Result<Option<(usize, usize)>> {
        let mut there: c_int = 0;
        // SAFETY: plain data that the library fills in.
        let mut status: sys::MPI_Status = unsafe { std::mem::zeroed() };
        // SAFETY: valid pointers, a valid communicator.
        check("MPI_Iprobe", unsafe { sys::MPI_Iprobe(sys::RSMPI_ANY_SOURCE, tag, self.0, &mut there, &mut status) })?;
        if there == 0 {
            return Ok(None);
        }
        Ok(Some((status.MPI_SOURCE as usize, bytes_of(&status)?)))
    }

    /// What every process brings: bytes of one length everywhere. Waits.
    pub(super) fn all_gather(self, mine: &[u8], all: &mut [u8]) -> Result<()> {
        assert_eq!(all.len(), mine.len() * self.processes()?);
        let (n, kind) = (size(mine.len())?, byte());
        // SAFETY: both buffers live through the call and are as long as it is told.
        check("MPI_Allgather", unsafe {
            sys::MPI_Allgather(mine.as_ptr().cast(), n, kind, all.as_mut_ptr().cast(), n, kind, self.0)
        })
    }

    /// What process 0 brings. Waits.
    pub(super) fn broadcast(self, bytes: &mut [u8]) -> Result<()> {
        // SAFETY: the buffer lives through the call.
        check("MPI_Bcast", unsafe { sys::MPI_Bcast(bytes.as_mut_ptr().cast(), size(bytes.len())?, byte(), 0, self.0) })
    }

    /// The library's own sum over all processes, in place: what ours is compared with.
    pub(super) fn plain_all_reduce(self, values: &mut [f32], library: Library) -> Result<()> {
        // MPI_IN_PLACE is a macro in both families, and not among the bindings.
        let in_place = std::ptr::without_provenance::<c_void>(match library {
            Library::OpenMpi => 1,
            Library::Mpich => usize::MAX,
        });
        // SAFETY: the buffer lives through the call.
        check("MPI_Allreduce", unsafe {
            let n = size(values.len())?;
            sys::MPI_Allreduce(in_place, values.as_mut_ptr().cast(), n, sys::RSMPI_FLOAT, sys::RSMPI_SUM, self.0)
        })
    }
}

fn byte() -> sys::MPI_Datatype {
    // SAFETY: a constant of the library.
    unsafe { sys::RSMPI_UINT8_T }
}

fn size(len: usize) -> Result<c_int> {
    c_int::try_from(len).map_err(|_| Error::internal(format!("a message of {len} bytes; MPI takes 2 GiB at most")))
}

/// What the library says of itself. May be called before it is initialised.
pub(crate) fn library_version() -> String {
    let mut text = [0u8; sys::MPI_MAX_LIBRARY_VERSION_STRING as usize + 1];
    let mut len: c_int = 0;
    // SAFETY: the buffer is as long as the library may need.
    unsafe { sys::MPI_Get_library_version(text.as_mut_ptr().cast(), &mut len) };
    String::from_utf8_lossy(&text[..(len.max(0) as usize).min(text.len())]).trim_matches('\0').trim().into()
}

#[cfg(test)]
mod tests {
    use super::Request;

    /// Compiles only where `T` is not `Clone`: else two impls fit, and the compiler cannot choose.
    trait NotClone<Proof> {
        fn holds() {}
    }
    struct ItIs;
    impl<T> NotClone<()> for T {}
    impl<T: Clone> NotClone<ItIs> for T {}

    #[test]
    fn a_request_has_one_owner() {
        <Request as NotClone<_>>::holds();
    }
}
