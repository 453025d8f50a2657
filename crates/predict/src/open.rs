//! Which run is meant, and which of its checkpoints. Nothing is written and no lock is taken: a run may be in training.

use paceline_base::{Error, Kind, Result};
use paceline_config::{Cadence, Config};
use paceline_engine::checkpoint::{self, Checkpoint};
use paceline_record::RunDir;
use paceline_run::{ModelInfo, Recorded, build_graph, open_data};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Which checkpoint of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Which {
    /// That of the best epoch, as `train.monitor` decides.
    #[default]
    Best,
    /// The newest.
    Last,
    /// That after so many steps.
    Step(u64),
    /// The one in this folder.
    Path(PathBuf),
}

impl FromStr for Which {
    type Err = Infallible;

    fn from_str(text: &str) -> std::result::Result<Self, Infallible> {
        let step = || text.strip_prefix("step-")?.parse().ok();
        Ok(match text {
            "best" => Self::Best,
            "last" => Self::Last,
            _ => step().map_or_else(|| Self::Path(text.into()), Self::Step),
        })
    }
}

/// The folder of a run, and the checkpoint in it if that is what was given.
pub(crate) struct Located {
    pub dir: PathBuf,
    pub checkpoint: Option<PathBuf>,
}

/// Finds the run that a path means: its directory, its `run.toml`, or one of its checkpoints.
pub(crate) fn locate(path: &Path) -> Result<Located> {
    let whole = std::path::absolute(path).map_err(|e| Error::io("find", path, &e))?;
    let above = |levels: usize| whole.ancestors().nth(levels).map(Path::to_path_buf);
    if path.is_file() && path.file_name().is_some_and(|name| name == "run.toml") {
        let dir = path.parent().filter(|dir| *dir != Path::new("")).unwrap_or(Path::new("."));
        return Ok(Located { dir: dir.into(), checkpoint: None });
    }
    let is_run = |dir: &Path| dir.join("run.toml").is_file();
    if path.is_dir() && !is_run(path) {
        if path.join("manifest.toml").is_file()
            && let Some(dir) = above(2).filter(|dir| is_run(dir))
        {
            return Ok(Located { dir, checkpoint: Some(path.into()) });
        }
        if let Some(dir) = above(1).filter(|dir| is_run(dir) && whole.ends_with("checkpoints")) {
            return Ok(Located { dir, checkpoint: None });
        }
    }
    RunDir::open(path)?; // says what is wrong with it
    Ok(Located { dir: path.into(), checkpoint: None })
}

/// What a model is and takes: from the run directory or, for a run of an older version, from its data.
pub(crate) fn model_info(recorded: &Recorded, notes: &mut Vec<String>) -> Result<ModelInfo> {
    if let Some(info) = ModelInfo::read(&recorded.dir)? {
        return Ok(info);
    }
    let name = &recorded.config.data.name;
    let opened = open_data(&own_data(&recorded.config)).and_then(|data| {
        let graph = build_graph(&recorded.config, &data)?;
        Ok(ModelInfo::of(&recorded.config, &data, &graph))
    });
    let info = opened.map_err(|e| {
        Error::user(format!(
            "{} has no model.json (an older version of paceline wrote it), and its data {name}, which would say its classes, \
             cannot be opened: {}; put the data there, in the folder from which the run was started, or train again",
            recorded.dir.display(),
            e.message()
        ))
    })?;
    notes.push(format!(
        "the run has no model.json (it is of an older version): classes and sizes are those of its data {name}"
    ));
    Ok(info)
}

/// The configuration to open the data of a run with, once more: nothing is kept of what is decoded.
pub(crate) fn own_data(config: &Config) -> Config {
    let mut config = config.clone();
    config.data.cache = paceline_config::CacheName::None;
    config
}

/// Reads the checkpoint that was asked for.
pub(crate) fn read_checkpoint(recorded: &Recorded, which: &Which) -> Result<Checkpoint> {
    let folder = recorded.dir.join("checkpoints");
    let shown = folder.display();
    let there: Vec<u64> = checkpoint::list(&folder)?.into_iter().map(|(step, _)| step).collect();
    if there.is_empty() && !matches!(which, Which::Path(_)) {
        let why = match recorded.config.checkpoint.every {
            Cadence::Never => "it was trained with checkpoint.every = \"never\"; train it with checkpoints",
            _ => "wait for its first one, or train it to the end of an epoch (paceline train --resume RUN)",
        };
        return Err(Error::user(format!("{} has no checkpoint yet: {why}", recorded.dir.display())));
    }
    let steps = || {
        let mut names: Vec<String> = there.iter().rev().map(|step| format!("step-{step}")).collect();
        names.dedup();
        names.join(", ")
    };
    match which {
        Which::Best => {
            let link = folder.join("best");
            if !link.exists() {
                return Err(Error::user(format!(
                    "{} has no best checkpoint yet, because no epoch of it was validated; checkpoint last takes the newest \
                     ({})",
                    recorded.dir.display(),
                    steps()
                )));
            }
            follow(&link)
        }
        Which::Last => match checkpoint::latest(&folder)? {
            Some((found, _)) => Ok(found),
            None => Err(Error::user(format!("{shown} has no checkpoint"))),
        },
        Which::Step(step) if !there.contains(step) => Err(Error::user(format!(
            "{shown} has no step-{step}; it has {} (the others were not kept: checkpoint.keep)",
            steps()
        ))),
        Which::Step(step) => checkpoint::load(&folder.join(format!("step-{step}"))),
        Which::Path(path) => {
            if !path.join("manifest.toml").is_file() {
                return Err(Error::user(format!(
                    "{} is no checkpoint: it has no manifest.toml; give best, last, step-N or a folder such as {shown}/best",
                    path.display()
                )));
            }
            checkpoint::load(path)
        }
    }
}

/// Reads the checkpoint behind a link. A run that is in training may set the link anew and remove the checkpoint that it led to
/// while it is read: then the new one is read.
fn follow(link: &Path) -> Result<Checkpoint> {
    const ATTEMPTS: usize = 5;
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let target = std::fs::canonicalize(link).map_err(|e| Error::io("read", link, &e));
        let now = target.as_ref().ok().cloned();
        match target.and_then(|target| checkpoint::load(&target)) {
            Ok(found) => return Ok(found),
            Err(e) if e.kind() == Kind::Internal => return Err(e),
            Err(e) => {
                if std::fs::canonicalize(link).ok() == now && now.is_some_and(|target| target.exists()) {
                    return Err(e); // it is still there, and it is what is wrong
                }
                last = Some(e);
            }
        }
    }
    Err(last.unwrap_or_else(|| Error::internal("no attempt was made")))
}
