//! Matrices in files of NumPy's format: `.npy`, two-dimensional, row by row, little-endian f4 or f8.
//!
//! The format (numpy.lib.format): the bytes `\x93NUMPY`, a version (two bytes), the length of the header (two bytes,
//! four from version 2 on), the header, which is a Python dictionary with `descr`, `fortran_order` and `shape`, and the elements. Blocks are
//! read and written where they lie; nobody holds a whole matrix.

use paceline_base::{Error, Result};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// A matrix in a file.
pub struct Npy {
    path: PathBuf,
    file: File,
    /// Rows and columns.
    pub shape: (usize, usize),
    /// Bytes of an element: 4 or 8.
    pub width: usize,
    begin: u64,
}

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longer headers are no headers.
const LONGEST: usize = 1 << 16;

impl Npy {
    /// Opens a matrix and compares the file's length with its header.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|e| Error::io("read", path, &e))?;
        let meta = file.metadata().map_err(|e| Error::io("read", path, &e))?;
        let wrong = |what: String| Error::user(format!("{}: {what}", path.display()));
        if meta.is_dir() {
            return Err(wrong("is a folder; give a .npy file, as numpy.save writes it".into()));
        }
        let mut start = vec![0; (meta.len() as usize).min(LONGEST + 12)];
        file.read_exact_at(&mut start, 0).map_err(|e| Error::io("read", path, &e))?;
        let header = parse(&start).map_err(wrong)?;
        let (rows, columns) = header.shape;
        let expected = (rows as u128) * (columns as u128) * header.width as u128 + u128::from(header.begin);
        if u128::from(meta.len()) != expected {
            return Err(wrong(format!(
                "has {} bytes, but a matrix of {rows}×{columns} takes {expected}; it was cut off, or is not what it says",
                meta.len()
            )));
        }
        Ok(Self { path: path.into(), file, shape: header.shape, width: header.width, begin: header.begin })
    }

    /// Makes a file for a matrix of f4, all zero; it must not exist.
    pub fn create(path: &Path, shape: (usize, usize)) -> Result<Self> {
        let file = OpenOptions::new().write(true).read(true).create_new(true).open(path);
        let file = file.map_err(|e| Error::io("create", path, &e))?;
        let header = header(shape);
        let begin = header.len() as u64;
        file.write_all_at(&header, 0)
            .and_then(|()| file.set_len(begin + (shape.0 * shape.1 * 4) as u64))
            .map_err(|e| Error::io("write", path, &e))?;
        Ok(Self { path: path.into(), file, shape, width: 4, begin })
    }

    /// Opens a matrix that [`create`](Npy::create) made, perhaps on another host, to write to.
    pub fn open_to_write(path: &Path) -> Result<Self> {
        let npy = Self::open(path)?;
        let file = OpenOptions::new().write(true).open(path).map_err(|e| Error::io("write", path, &e))?;
        Ok(Self { file, ..npy })
    }

    fn offset(&self, row: usize, column: usize) -> u64 {
        self.begin + ((row * self.shape.1 + column) * self.width) as u64
    }

    /// Reads rows × columns elements from (row, column) on; f8 is rounded to f4.
    pub fn read(&self, (row, column): (usize, usize), [rows, columns]: [usize; 2], out: &mut [f32]) -> Result<()> {
        let mut bytes = vec![0; columns * self.width];
        for (r, out) in out.chunks_mut(columns.max(1)).enumerate().take(rows) {
            let read = self.file.read_exact_at(&mut bytes, self.offset(row + r, column));
            read.map_err(|e| Error::io("read", &self.path, &e))?;
            if self.width == 4 {
                for (to, from) in out.iter_mut().zip(bytes.as_chunks::<4>().0) {
                    *to = f32::from_le_bytes(*from);
                }
            } else {
                for (to, from) in out.iter_mut().zip(bytes.as_chunks::<8>().0) {
                    *to = f64::from_le_bytes(*from) as f32;
                }
            }
        }
        Ok(())
    }

    /// Writes rows × columns elements at (row, column).
    pub fn write(&self, (row, column): (usize, usize), columns: usize, values: &[f32]) -> Result<()> {
        let mut bytes = Vec::with_capacity(columns * 4);
        for (r, values) in values.chunks(columns.max(1)).enumerate() {
            bytes.clear();
            bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
            let written = self.file.write_all_at(&bytes, self.offset(row + r, column));
            written.map_err(|e| Error::io("write", &self.path, &e))?;
        }
        Ok(())
    }

    /// Brings what was written to the disk.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_all().map_err(|e| Error::io("write", &self.path, &e))
    }
}

#[derive(Debug, PartialEq)]
struct Header {
    shape: (usize, usize),
    width: usize,
    begin: u64,
}

fn header((rows, columns): (usize, usize)) -> Vec<u8> {
    let mut dictionary = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    // The elements begin at a multiple of 64, and a line feed ends the header.
    let pad = (10 + dictionary.len() + 1).next_multiple_of(64) - 10 - dictionary.len() - 1;
    dictionary += &" ".repeat(pad);
    dictionary.push('\n');
    let mut bytes = MAGIC.to_vec();
    bytes.extend([1, 0]);
    bytes.extend((dictionary.len() as u16).to_le_bytes());
    bytes.extend(dictionary.into_bytes());
    bytes
}

fn parse(start: &[u8]) -> std::result::Result<Header, String> {
    let cut = || "ends within its header".to_string();
    if start.get(..6) != Some(MAGIC) {
        return Err("is no .npy file; numpy.save writes them".into());
    }
    let (&major, &minor) = (start.get(6).ok_or_else(cut)?, start.get(7).ok_or_else(cut)?);
    let (len, begin) = match (major, minor) {
        (1, 0) => (usize::from(u16::from_le_bytes(field(start, 8).ok_or_else(cut)?)), 10),
        (2 | 3, 0) => (u32::from_le_bytes(field(start, 8).ok_or_else(cut)?) as usize, 12),
        _ => return Err(format!("has version {major}.{minor} of the .npy format; 1.0 to 3.0 can be read")),
    };
    if len > LONGEST {
        return Err(format!("has a header of {len} bytes, which no matrix needs"));
    }
    let text = start.get(begin..begin + len).ok_or_else(cut)?;
    let text = std::str::from_utf8(text).map_err(|_| "has a header that is no text".to_string())?;
    let entry = |key: &str| {
        let at = text.find(&format!("'{key}':")).ok_or_else(|| format!("has no {key} in its header"))?;
        Ok::<_, String>(text[at + key.len() + 3..].trim_start())
    };
    let quoted = entry("descr")?;
    let descr = quoted.strip_prefix('\'').and_then(|t| t.split_once('\'')).map(|t| t.0);
    let width = match descr {
        Some("<f4") => 4,
        Some("<f8") => 8,
        Some(other) => {
            return Err(format!("holds elements of type {other}; save it as <f4 or <f8, as in a.astype('<f4')"));
        }
        None => return Err("holds no plain numbers; save it as <f4 or <f8, as in a.astype('<f4')".into()),
    };
    match entry("fortran_order")? {
        t if t.starts_with("False") => {}
        t if t.starts_with("True") => {
            return Err("lies column by column; save it row by row, as numpy.ascontiguousarray(a)".into());
        }
        _ => return Err("has a header without a readable fortran_order".into()),
    }
    let tuple = entry("shape")?.strip_prefix('(').and_then(|t| t.split_once(')')).map(|t| t.0);
    let tuple = tuple.ok_or("has a header without a readable shape")?;
    let numbers: Option<Vec<usize>> =
        tuple.split(',').map(str::trim).filter(|t| !t.is_empty()).map(|t| t.parse().ok()).collect();
    match numbers.as_deref() {
        Some(&[rows, columns]) => Ok(Header { shape: (rows, columns), width, begin: (begin + len) as u64 }),
        Some(other) => Err(format!("has {} dimensions; a matrix has 2", other.len())),
        None => Err(format!("has the shape ({tuple}), which is not made of numbers")),
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What numpy 2 wrote for numpy.save(f, numpy.zeros((3, 4), '<f8')).
    const NUMPY: &[u8] =
        b"\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }                                                          \n";

    fn refuses(from: &[u8], to: &[u8], expected: &str) {
        let at = NUMPY.windows(from.len()).position(|w| w == from).unwrap();
        let bytes = [&NUMPY[..at], to, &NUMPY[at + from.len()..]].concat();
        let error = parse(&bytes).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }

    #[test]
    fn reads_what_numpy_writes_and_refuses_the_rest() {
        assert_eq!(NUMPY.len(), 128);
        assert_eq!(parse(NUMPY), Ok(Header { shape: (3, 4), width: 8, begin: 128 }));
        refuses(b"NUMPY", b"NUMPX", "no .npy file");
        refuses(b"\x01\x00v", b"\x09\x00v", "version 9.0");
        refuses(b"<f8", b">f8", ">f8; save it as");
        refuses(b"<f8", b"<i4", "<i4; save it as");
        refuses(b"'<f8'", b"[('a', '<f8')]", "no plain numbers");
        refuses(b"False", b"True ", "column by column");
        refuses(b"False", b"Maybe", "fortran_order");
        refuses(b"(3, 4)", b"(3,)  ", "1 dimensions");
        refuses(b"(3, 4)", b"(3, x)", "not made of numbers");
        refuses(b"(3, 4)", b"(-3,4)", "not made of numbers");
        refuses(b"shape", b"shapf", "no shape");
        for len in 0..NUMPY.len() {
            assert!(parse(&NUMPY[..len]).is_err(), "{len} bytes");
        }
        let long = [&b"\x93NUMPY\x02\x00"[..], &u32::MAX.to_le_bytes(), &NUMPY[10..]].concat();
        assert!(parse(&long).unwrap_err().contains("no matrix needs"));
        let second = [&b"\x93NUMPY\x02\x00"[..], &118u32.to_le_bytes(), &NUMPY[10..]].concat();
        assert_eq!(parse(&second), Ok(Header { shape: (3, 4), width: 8, begin: 130 }));
    }

    #[test]
    fn blocks_come_back_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.npy");
        let npy = Npy::create(&path, (3, 5)).unwrap();
        npy.write((1, 2), 2, &[1.0, 2.0, 3.0, 4.0]).unwrap();
        npy.sync().unwrap();
        assert!(Npy::create(&path, (3, 5)).is_err(), "nothing is overwritten");
        let npy = Npy::open(&path).unwrap();
        let mut all = [9.0; 15];
        npy.read((0, 0), [3, 5], &mut all).unwrap();
        assert_eq!(all, [0., 0., 0., 0., 0., 0., 0., 1., 2., 0., 0., 0., 3., 4., 0.]);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len() % 64, 60);
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        assert!(Npy::open(&path).err().unwrap().message().contains("cut off"));
    }
}
