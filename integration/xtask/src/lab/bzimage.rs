//! The kernel proper inside a compressed one. Emulated, unpacking a kernel takes longer than all the rest of its start, and
//! the emulator can start the unpacked one by itself (PVH).

/// A compressed kernel that is none, or not of a kind that is known here.
#[derive(Debug, PartialEq, Eq)]
pub struct NoKernel(&'static str);

impl std::fmt::Display for NoKernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the kernel's image cannot be unpacked: {}", self.0)
    }
}

/// The kernel, compressed by xz, inside a bzImage (format: Documentation/arch/x86/boot.rst of the kernel, fields `setup_sects`,
/// `boot_flag`, `header`, `version`, `payload_offset` and `payload_length`).
///
/// # Errors
/// It is no bzImage, or its kernel is compressed otherwise.
pub fn payload(image: &[u8]) -> Result<&[u8], NoKernel> {
    const MAGIC: [u8; 6] = *b"\xfd7zXZ\0";
    let number = |at: usize| {
        let bytes = image.get(at..).and_then(|rest| rest.first_chunk::<4>());
        bytes.map(|bytes| u32::from_le_bytes(*bytes) as usize).ok_or(NoKernel("too short"))
    };
    if image.get(0x202..0x206) != Some(b"HdrS") {
        return Err(NoKernel("no boot protocol header"));
    }
    // Zero stands for four, from times when there was no such field.
    let setup = image.get(0x1f1).map_or(0, |&sectors| if sectors == 0 { 4 } else { usize::from(sectors) });
    let start = (setup + 1) * 512 + number(0x248)?;
    // The length of the unpacked kernel follows as a number; xz would take it for garbage.
    let length = number(0x24c)?.checked_sub(4).ok_or(NoKernel("the payload is empty"))?;
    let payload = image.get(start..).and_then(|rest| rest.get(..length)).ok_or(NoKernel("cut short"))?;
    if payload.starts_with(&MAGIC) { Ok(payload) } else { Err(NoKernel("not compressed by xz")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(sectors: u8, payload: &[u8]) -> Vec<u8> {
        let setup = if sectors == 0 { 4 } else { usize::from(sectors) };
        let mut image = vec![0; (setup + 1) * 512 + 16];
        image[0x1f1] = sectors;
        image[0x202..0x206].copy_from_slice(b"HdrS");
        image[0x248..0x24c].copy_from_slice(&16u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        image.extend(payload);
        image
    }

    #[test]
    fn the_payload_is_found_without_the_number_behind_it() {
        for sectors in [0, 4, 27] {
            assert_eq!(payload(&image(sectors, b"\xfd7zXZ\0kernel1234")), Ok(&b"\xfd7zXZ\0kernel"[..]));
        }
    }

    #[test]
    fn what_is_no_such_kernel_is_named() {
        let good = image(4, b"\xfd7zXZ\0kernel1234");
        assert_eq!(payload(b""), Err(NoKernel("no boot protocol header")));
        // Without the number behind it, it is whole.
        assert_eq!(payload(&good[..good.len() - 5]), Err(NoKernel("cut short")));
        assert_eq!(payload(&image(4, b"\x1f\x8bkernel1234")), Err(NoKernel("not compressed by xz")));
        assert_eq!(payload(&image(4, b"123")), Err(NoKernel("the payload is empty")));
        (0..good.len() - 4).for_each(|end| assert!(payload(&good[..end]).is_err()));
    }
}
