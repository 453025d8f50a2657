//! The files of a checkpoint: what is in them, how they are written whole, how they are checked when read.

use super::gather::Snapshot;
use crate::state::TrainState;
use paceline_base::optim::Rule;
use paceline_base::units::DType;
use paceline_base::{Error, Result};
use paceline_system::atomic::sync_folder;
use paceline_system::hex;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The numbers of a tensor.
#[derive(Clone, Debug, PartialEq)]
pub enum TensorData {
    /// Of a device that computes in f32.
    F32(Vec<f32>),
    /// Of the reference device.
    F64(Vec<f64>),
}

impl TensorData {
    /// Copies `n` numbers of the same type from another.
    pub(crate) fn copy_from(&mut self, at: usize, from: &TensorData, start: usize, n: usize) {
        match (self, from) {
            (TensorData::F32(a), TensorData::F32(b)) => a[at..at + n].copy_from_slice(&b[start..start + n]),
            (TensorData::F64(a), TensorData::F64(b)) => a[at..at + n].copy_from_slice(&b[start..start + n]),
            _ => unreachable!("one device, one type"),
        }
    }

    /// Adds as many numbers of the same type, one by one.
    pub fn add(&mut self, other: &TensorData) {
        match (self, other) {
            (TensorData::F32(a), TensorData::F32(b)) => a.iter_mut().zip(b).for_each(|(a, b)| *a += b),
            (TensorData::F64(a), TensorData::F64(b)) => a.iter_mut().zip(b).for_each(|(a, b)| *a += b),
            _ => unreachable!("one checkpoint, one type"),
        }
    }

    /// True if no number is infinite or NaN.
    pub fn is_finite(&self) -> bool {
        match self {
            TensorData::F32(v) => v.iter().all(|x| x.is_finite()),
            TensorData::F64(v) => v.iter().all(|x| x.is_finite()),
        }
    }

    fn to_le_bytes(&self) -> Vec<u8> {
        match self {
            TensorData::F32(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            TensorData::F64(v) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
        }
    }
}

/// A named tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// As in the file: the parameter, or `parameter.state`.
    pub name: String,
    /// Shape of the whole tensor.
    pub shape: Vec<usize>,
    /// Its elements, row-major.
    pub data: TensorData,
}

impl Tensor {
    /// A tensor of zeros.
    pub fn zeros(name: String, shape: Vec<usize>, dtype: DType) -> Self {
        let len = shape.iter().product();
        let data = match dtype {
            DType::F32 => TensorData::F32(vec![0.0; len]),
            DType::F64 => TensorData::F64(vec![0.0; len]),
            DType::U8 | DType::U32 | DType::U64 => unreachable!("parameters are floats"),
        };
        Self { name, shape, data }
    }
}

/// What must be equal for a resume to be exact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// Seed of the run.
    pub seed: u64,
    /// Samples of a step over all ranks.
    pub batch: usize,
    /// The optimiser whose state lies beside the parameters.
    pub rule: Rule,
    /// Content of the training samples.
    pub data: String,
    /// Parameter names and shapes.
    pub model: Vec<(String, Vec<usize>)>,
}

/// Version of the format that is written.
const FORMAT: u32 = 2;

/// `manifest.toml`: written last, so that a checkpoint with one is whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of this format.
    pub format: u32,
    /// Program that wrote it.
    pub version: String,
    /// Where training stands.
    pub progress: TrainState,
    /// What it belongs to.
    pub identity: Identity,
    /// The other files.
    pub files: Vec<FileEntry>,
}

/// A file and its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Name in the checkpoint's folder.
    pub name: String,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// SHA-256 of the content.
    pub sha256: String,
}

/// A checkpoint that was read and found whole.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Where it lies.
    pub path: PathBuf,
    /// Checked against the files when it was read.
    pub manifest: Manifest,
    model: Vec<Tensor>,
    optimizer: Vec<Tensor>,
}

impl Checkpoint {
    /// A parameter by its global name; an error if there is none of it.
    pub fn model_tensor(&self, name: &str) -> Result<&Tensor> {
        self.find(&self.model, name, "parameter")
    }

    /// An optimiser state.
    pub(crate) fn optimizer_tensor(&self, name: &str) -> Result<&Tensor> {
        self.find(&self.optimizer, name, "optimiser state")
    }

    /// What compression held back of a parameter's gradients, rank by rank; nothing if the checkpoint has none of it.
    pub fn held_back(&self, parameter: &str) -> Vec<&Tensor> {
        let of = |rank: usize| self.optimizer.iter().find(|t| t.name == held_back_name(parameter, rank));
        (0..).map_while(of).collect()
    }

    /// On how many ranks gradients were held back when it was written; 0 if it has nothing of that.
    pub fn held_back_ranks(&self) -> usize {
        self.model.iter().map(|t| self.held_back(&t.name).len()).max().unwrap_or(0)
    }

    /// All parameters, in the order of the file.
    pub fn model(&self) -> &[Tensor] {
        &self.model
    }

    fn find<'a>(&self, tensors: &'a [Tensor], name: &str, what: &str) -> Result<&'a Tensor> {
        tensors.iter().find(|t| t.name == name).ok_or_else(|| {
            Error::user(format!(
                "checkpoint {} has no {what} {name}: it belongs to another model or optimizer",
                self.path.display()
            ))
        })
    }
}

/// The name, among the tensors of the optimiser, of what a rank holds back of a parameter's gradients.
pub(super) fn held_back_name(parameter: &str, rank: usize) -> String {
    format!("{parameter}.{}", held_back_state(rank))
}

/// The same without the parameter.
pub(super) fn held_back_state(rank: usize) -> String {
    format!("held-back.{rank}")
}

const MODEL: &str = "model.safetensors";
const OPTIMIZER: &str = "optimizer.safetensors";
const MANIFEST: &str = "manifest.toml";

/// Writes a checkpoint under a temporary name, syncs it, and renames it to `step-N`.
pub(super) fn write(dir: &Path, snapshot: &Snapshot, progress: TrainState, identity: &Identity) -> Result<PathBuf> {
    let target = dir.join(format!("step-{}", progress.step));
    let temporary = dir.join(format!(".step-{}.partial", progress.step));
    let result = write_into(&temporary, snapshot, progress, identity).and_then(|()| {
        // An older checkpoint of the same step stays readable (under a name that `list` knows) until the new one is in place.
        let old = dir.join(format!("step-{}.old", progress.step));
        let replaces = target.exists();
        if replaces {
            let _ = fs::remove_dir_all(&old); // left by a kill; the newer one is whole
            fs::rename(&target, &old).map_err(|e| Error::io("rename", &target, &e))?;
        }
        fs::rename(&temporary, &target).map_err(|e| Error::io("rename", &temporary, &e))?;
        sync_folder(dir)?;
        if replaces {
            fs::remove_dir_all(&old).map_err(|e| Error::io("remove", &old, &e))?;
        }
        Ok(())
    });
    if result.is_err() {
        let _ = fs::remove_dir_all(&temporary); // best effort: the error is what matters
    }
    result.map(|()| target)
}

fn write_into(folder: &Path, snapshot: &Snapshot, progress: TrainState, identity: &Identity) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|e| Error::io("clear", folder, &e))?;
    }
    fs::create_dir_all(folder).map_err(|e| Error::io("create", folder, &e))?;
    let mut files = Vec::new();
    for (name, tensors) in [(MODEL, &snapshot.model), (OPTIMIZER, &snapshot.optimizer)] {
        let bytes = encode(tensors)?;
        put(&folder.join(name), &bytes)?;
        files.push(FileEntry { name: name.into(), bytes: bytes.len() as u64, sha256: sha256(&bytes) });
    }
    let manifest = Manifest {
        format: FORMAT,
        version: env!("CARGO_PKG_VERSION").into(),
        progress,
        identity: identity.clone(),
        files,
    };
    let text = toml::to_string(&manifest).map_err(|e| Error::internal(format!("manifest: {e}")))?;
    put(&folder.join(MANIFEST), text.as_bytes())?;
    sync_folder(folder)
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = fs::File::create(path).map_err(|e| Error::io("create", path, &e))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|e| Error::io("write", path, &e))
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn encode(tensors: &[Tensor]) -> Result<Vec<u8>> {
    let raw: Vec<(Dtype, Vec<u8>)> = tensors
        .iter()
        .map(|t| (if matches!(t.data, TensorData::F32(_)) { Dtype::F32 } else { Dtype::F64 }, t.data.to_le_bytes()))
        .collect();
    let views = tensors
        .iter()
        .zip(&raw)
        .map(|(t, (dtype, bytes))| TensorView::new(*dtype, t.shape.clone(), bytes).map(|v| (t.name.clone(), v)))
        .collect::<std::result::Result<Vec<_>, _>>()
        .map_err(|e| Error::internal(format!("safetensors: {e}")))?;
    safetensors::serialize(views, None).map_err(|e| Error::internal(format!("safetensors: {e}")))
}

fn decode(bytes: &[u8], path: &Path) -> Result<Vec<Tensor>> {
    let fail =
        |e: String| Error::failure(format!("{} is not a safetensors file that paceline reads: {e}", path.display()));
    let file = SafeTensors::deserialize(bytes).map_err(|e| fail(e.to_string()))?;
    file.tensors()
        .into_iter()
        .map(|(name, view)| {
            let data = match view.dtype() {
                Dtype::F32 => TensorData::F32(
                    view.data().chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect(),
                ),
                Dtype::F64 => TensorData::F64(
                    view.data()
                        .chunks_exact(8)
                        .map(|c| f64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]))
                        .collect(),
                ),
                other => return Err(fail(format!("tensor {name} is of type {other:?}"))),
            };
            Ok(Tensor { name, shape: view.shape().to_vec(), data })
        })
        .collect()
}

/// Steps of the checkpoints in a folder, newest first.
pub fn list(dir: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io("read", dir, &e)),
    };
    let mut found: Vec<(u64, PathBuf)> = entries
        .filter_map(std::result::Result::ok)
        .filter_map(|e| {
            let name = e.file_name();
            let step = name.to_str()?.strip_prefix("step-")?;
            Some((step.strip_suffix(".old").unwrap_or(step).parse().ok()?, e.path()))
        })
        .collect();
    // Of one step, the one without ".old" comes first.
    found.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    Ok(found)
}

/// The link to the best checkpoint.
const BEST: &str = "best";

/// Makes `best` a link to the checkpoint of a step, at once: there is never a moment without a link. Without that checkpoint
/// there is no link either.
pub(super) fn mark_best(dir: &Path, step: u64) -> Result<()> {
    let (link, target) = (dir.join(BEST), PathBuf::from(format!("step-{step}")));
    let fail = |e: std::io::Error| Error::io("link", &link, &e);
    if !dir.join(&target).is_dir() {
        return match fs::remove_file(&link) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(fail(e)),
            _ => Ok(()),
        };
    }
    if fs::read_link(&link).is_ok_and(|now| now == target) {
        return Ok(());
    }
    let temporary = dir.join(format!(".{BEST}.partial"));
    let _ = fs::remove_file(&temporary); // left by a kill
    std::os::unix::fs::symlink(&target, &temporary).and_then(|()| fs::rename(&temporary, &link)).map_err(fail)
}

/// Removes what killed attempts left half-written. Only the one writer of a folder may call it.
pub(super) fn sweep(dir: &Path) -> Result<()> {
    let entries = fs::read_dir(dir).map_err(|e| Error::io("read", dir, &e))?;
    for path in entries.filter_map(std::result::Result::ok).map(|e| e.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(".step-") && name.ends_with(".partial") {
            fs::remove_dir_all(&path).map_err(|e| Error::io("remove", &path, &e))?;
        }
    }
    Ok(())
}

/// Puts checkpoints newer than `step` out of the way, under `damaged-…`: a resume found them damaged, and they must not count
/// among the newest that are kept.
pub fn set_aside_newer(dir: &Path, step: u64) -> Result<()> {
    for (_, path) in list(dir)?.into_iter().filter(|(s, _)| *s > step) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let aside = dir.join(format!("damaged-{name}"));
        if aside.exists() {
            fs::remove_dir_all(&aside).map_err(|e| Error::io("remove", &aside, &e))?;
        }
        fs::rename(&path, &aside).map_err(|e| Error::io("rename", &path, &e))?;
    }
    Ok(())
}

/// Format 1 counted the steps of the current epoch, all of one batch; since format 2 its samples are counted.
fn count_samples(manifest: &mut toml::Table) -> Option<()> {
    let batch = manifest.get("identity")?.get("batch")?.as_integer()?;
    let progress = manifest.get_mut("progress")?.as_table_mut()?;
    let steps = progress.remove("step_in_epoch")?.as_integer()?;
    progress.insert("position".into(), steps.checked_mul(batch)?.into());
    Some(())
}

/// Reads one checkpoint and checks every digest.
pub fn load(path: &Path) -> Result<Checkpoint> {
    let manifest_path = path.join(MANIFEST);
    let text = fs::read_to_string(&manifest_path).map_err(|e| Error::io("read", &manifest_path, &e))?;
    let damaged = |what: String| Error::failure(format!("checkpoint {} is damaged: {what}", path.display()));
    let mut table: toml::Table = text.parse().map_err(|_| damaged(format!("{MANIFEST} is not TOML")))?;
    match table.get("format").and_then(toml::Value::as_integer) {
        Some(1) => {
            count_samples(&mut table).ok_or_else(|| damaged(format!("{MANIFEST} does not say where it stands")))?
        }
        Some(n) if n == i64::from(FORMAT) => {}
        Some(n) if n > i64::from(FORMAT) => {
            return Err(Error::user(format!(
                "checkpoint {} has format {n}, newer than this program reads ({FORMAT}); update paceline",
                path.display()
            )));
        }
        _ => return Err(damaged(format!("{MANIFEST} says no format"))),
    }
    let manifest: Manifest = toml::Value::Table(table)
        .try_into()
        .map_err(|e: toml::de::Error| damaged(format!("{MANIFEST}: {}", e.message())))?;
    let read = |name: &str| -> Result<Vec<Tensor>> {
        let entry = manifest
            .files
            .iter()
            .find(|f| f.name == name)
            .ok_or_else(|| damaged(format!("{MANIFEST} does not list {name}")))?;
        let file = path.join(name);
        let bytes = fs::read(&file).map_err(|e| damaged(format!("{name} cannot be read: {e}")))?;
        if bytes.len() as u64 != entry.bytes || sha256(&bytes) != entry.sha256 {
            return Err(damaged(format!("{name} is not what was written (digest differs)")));
        }
        decode(&bytes, &file)
    };
    Ok(Checkpoint { path: path.into(), model: read(MODEL)?, optimizer: read(OPTIMIZER)?, manifest })
}

/// The newest whole checkpoint of a folder, and a note for each newer one that was damaged.
pub fn latest(dir: &Path) -> Result<Option<(Checkpoint, Vec<String>)>> {
    let mut notes = Vec::new();
    for (_, path) in list(dir)? {
        match load(&path) {
            Ok(checkpoint) => return Ok(Some((checkpoint, notes))),
            Err(e) if e.kind() == paceline_base::Kind::User && !e.message().contains("no such file") => return Err(e),
            Err(e) => notes.push(format!("{}; the one before it is used", e.message())),
        }
    }
    match notes.pop() {
        None => Ok(None),
        Some(last) => Err(Error::failure(format!("no checkpoint in {} is whole: {last}", dir.display()))),
    }
}
