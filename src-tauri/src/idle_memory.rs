//! Memory that the app has after its start or the end of a page, and does not need while it waits.

/// Returns free memory and the pages of code and constants to the system. They are files of the
/// program and of WebKit, whose start reads most of them once; the system would keep them in the
/// app's memory until it is short of it. Those that are used again come back from the file cache
/// within microseconds.
#[cfg(target_os = "linux")]
pub(crate) fn release() {
    transom_engine::trim_heap();
    linux::unmap_constant_segments();
}

/// Does nothing: on macOS, pages of programs do not count in the memory of an app.
#[cfg(not(target_os = "linux"))]
pub(crate) fn release() {}

#[cfg(target_os = "linux")]
mod linux {
    use std::ffi::{c_int, c_void};
    use std::ops::Range;
    use std::ptr;

    /// Drops the pages of all segments that are not writable, of the program and its libraries.
    #[expect(
        unsafe_code,
        reason = "no safe library walks the segments of a program"
    )]
    pub(super) fn unmap_constant_segments() {
        // SAFETY: the callback gets no data, and dl_iterate_phdr(3) calls it only before it returns.
        unsafe {
            libc::dl_iterate_phdr(Some(unmap_object), ptr::null_mut());
        }
    }

    /// Is called while the loader is locked, so no library appears or disappears meanwhile.
    #[expect(unsafe_code, reason = "it is called from C")]
    unsafe extern "C" fn unmap_object(
        object: *mut libc::dl_phdr_info,
        _size: usize,
        _data: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a valid object, with that many segments.
        let (base, segments) = unsafe {
            let object = &*object;
            let n_segments = usize::from(object.dlpi_phnum);
            let segments = match object.dlpi_phdr.is_null() {
                true => &[][..],
                false => std::slice::from_raw_parts(object.dlpi_phdr, n_segments),
            };
            (object.dlpi_addr, segments)
        };
        // SAFETY: the call takes a number.
        let page_bytes = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(0);
        for segment in segments {
            let pages = constant_pages(base, segment, page_bytes);
            let (start, length) = (pages.start as usize, (pages.end - pages.start) as usize);
            // SAFETY: after MADV_DONTNEED, madvise(2), the next access reads the page from its file
            // again. The loader has not written to these pages. A program that patches code while it
            // runs gets the code of the file back, as with a debugger's breakpoints: libglvnd's entry
            // points, which a graphics driver may patch to be faster, then dispatch as before.
            unsafe {
                libc::madvise(start as *mut c_void, length, libc::MADV_DONTNEED);
            }
        }
        0
    }

    /// Returns the addresses of the whole pages of a segment of the file, if it is not writable: the
    /// loader writes addresses only into segments that are.
    fn constant_pages(base: u64, segment: &libc::Elf64_Phdr, page_bytes: u64) -> Range<u64> {
        let is_constant = segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_W == 0;
        if !is_constant || page_bytes == 0 {
            return 0..0;
        }
        let start = base.saturating_add(segment.p_vaddr);
        let end = start.saturating_add(segment.p_filesz);
        let start = start.next_multiple_of(page_bytes);
        start..(end - end % page_bytes).max(start)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn segment(kind: u32, flags: u32, start: u64, bytes: u64) -> libc::Elf64_Phdr {
            libc::Elf64_Phdr {
                p_type: kind,
                p_flags: flags,
                p_offset: 0,
                p_vaddr: start,
                p_paddr: 0,
                p_filesz: bytes,
                p_memsz: bytes,
                p_align: 4096,
            }
        }

        #[test]
        fn only_whole_pages_of_constant_segments_are_unmapped() {
            const BASE: u64 = 0x7000_0000;
            let load = |flags, start, bytes| {
                constant_pages(BASE, &segment(libc::PT_LOAD, flags, start, bytes), 4096)
            };
            let (read, code, write) =
                (libc::PF_R, libc::PF_R | libc::PF_X, libc::PF_R | libc::PF_W);
            assert_eq!(load(read, 0, 0x2800), BASE..BASE + 0x2000);
            assert_eq!(load(code, 0x2800, 0x2000), BASE + 0x3000..BASE + 0x4000);
            assert!(load(code, 0x2800, 0x100).is_empty());
            assert!(load(write, 0, 0x10000).is_empty());
            let relocated = segment(libc::PT_GNU_RELRO, read, 0, 0x10000);
            assert!(constant_pages(BASE, &relocated, 4096).is_empty());
        }

        #[test]
        fn code_and_constants_are_the_same_afterwards() {
            let text = |n: u32| format!("{n:?} {:?}", char::from_u32(n));
            let before: Vec<String> = (0..2000).map(text).collect();
            crate::idle_memory::release();
            let after: Vec<String> = (0..2000).map(text).collect();
            assert_eq!(after, before);
        }
    }
}
