//! What a process can do about its own end and that of its children, where the standard library has no word for it.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Ends this process with an exit code, and nothing else: no handler is run that might wait for processes that are gone.
pub fn end_at_once(code: u8) -> ! {
    // SAFETY: takes no pointer, and does not return.
    unsafe { libc::_exit(code.into()) }
}

/// Has a command start with SIGTERM blocked.
pub fn block_termination(command: &mut Command) {
    let block = || {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the set is of this frame, and initialised by the first call; nothing is read through the null pointer.
        let code = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            libc::sigaddset(set.as_mut_ptr(), libc::SIGTERM);
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut())
        };
        if code == 0 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(code)) }
    };
    // SAFETY: between fork and exec it only calls functions that are safe there, and allocates nothing.
    unsafe { command.pre_exec(block) };
}
