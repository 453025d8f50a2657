//! `model.json`: what a trained model is and what it takes, so that it can be used where its training data is not.

use crate::input::RunData;
use paceline_base::{Error, Result};
use paceline_config::Config;
use paceline_data::csv::{Columns, CsvKind};
use paceline_data::shards::Index;
use paceline_data::{DataPart, FeatureKind, Features, SampleKind, TargetKind};
use paceline_graph::Graph;
use paceline_image::Fit;
use paceline_system::atomic;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The name of the file in a run directory.
const FILE: &str = "model.json";

/// The newest format; newer ones are refused.
const FORMAT: u32 = 2;
/// The format of a model with dense features and one class, which says no kinds.
const PLAIN: u32 = 1;

/// What a model is and what it takes, as it stands in `model.json` of a run directory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelInfo {
    /// Version of this format.
    pub format: u32,
    /// The program that wrote it.
    pub version: String,
    /// Its name: that of the preset or of the model file.
    pub name: String,
    /// Names of the classes, in the order of its outputs; none if its targets are numbers.
    pub classes: Vec<String>,
    /// The shape of a sample, such as `[28, 28]` or `[96, 96, 3]`; empty for lists of indices.
    pub shape: Vec<usize>,
    /// What the features are.
    #[serde(default = "dense", skip_serializing_if = "is_dense")]
    pub features: FeatureKind,
    /// What the targets are; none stands for one of `classes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub targets: Option<TargetKind>,
    /// The columns of the csv that it was trained on; none if it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub columns: Option<Columns>,
    /// How stored values become the numbers that it takes.
    pub values: Values,
    /// How images become samples; none if samples are no images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageInfo>,
    /// Names and shapes of its parameters, as in its checkpoints.
    pub parameters: Vec<(String, Vec<usize>)>,
}

/// How stored values become the numbers that a model takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Values {
    /// Bytes, of which each stands for `byte · scale + offset`.
    Bytes {
        /// What a byte is multiplied by.
        scale: f32,
        /// What is then added.
        offset: f32,
    },
    /// Numbers as they are.
    Floats,
    /// Lists of indices.
    Indices,
}

fn dense() -> FeatureKind {
    FeatureKind::Dense
}

fn is_dense(kind: &FeatureKind) -> bool {
    *kind == FeatureKind::Dense
}

/// How images become samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageInfo {
    /// Height of a sample.
    pub height: usize,
    /// Width of a sample.
    pub width: usize,
    /// 1 (grey) or 3 (red, green, blue).
    pub channels: usize,
    /// How an image of another size is brought to that: crop, pad or stretch.
    #[serde(with = "fit_name")]
    pub fit: Fit,
}

impl ModelInfo {
    /// That of a run. Where the run did not resize its images itself, others are brought to their size as `paceline prepare`
    /// did it, if it says how.
    pub fn of(config: &Config, data: &RunData, graph: &Graph) -> Self {
        let shape = data.training.shape().to_vec();
        let values = match &data.training {
            DataPart::Stream(_) => Values::Bytes { scale: 1.0 / 255.0, offset: 0.0 },
            DataPart::Memory(samples) => match samples.features(0) {
                Features::U8 { scale, offset, .. } => Values::Bytes { scale, offset },
                Features::F32(_) => Values::Floats,
                Features::U32(_) | Features::U64(_) => Values::Indices,
            },
        };
        let size = match shape[..] {
            [height, width] => Some([height, width, 1]),
            [height, width, channels @ (1 | 3)] => Some([height, width, channels]),
            _ => None,
        };
        let fit = match config.data.size {
            Some(_) => config.data.fit.into(),
            None => prepared_with(Path::new(&config.data.name)).unwrap_or(config.data.fit.into()),
        };
        let SampleKind { features, targets, .. } = data.sample_kind();
        let targets = Some(targets).filter(|&kind| kind != one_class(data.training.classes()));
        let columns = data.set.columns.clone();
        let plain = is_dense(&features) && targets.is_none() && columns.is_none();
        Self {
            format: if plain { PLAIN } else { FORMAT },
            features,
            targets,
            columns,
            version: env!("CARGO_PKG_VERSION").into(),
            name: graph.name.clone(),
            classes: data.training.class_names().to_vec(),
            image: size.filter(|_| matches!(values, Values::Bytes { .. })).map(|[height, width, channels]| ImageInfo {
                height,
                width,
                channels,
                fit,
            }),
            shape,
            values,
            parameters: graph.signature(),
        }
    }

    /// What every sample of it is made of.
    pub fn sample_kind(&self) -> SampleKind {
        let targets = self.targets.unwrap_or_else(|| one_class(self.classes.len()));
        SampleKind { shape: self.shape.clone(), features: self.features, targets }
    }

    /// Names of its targets: the columns of its csv, else their numbers from 1 on.
    pub fn target_names(&self) -> Vec<String> {
        match &self.columns {
            Some(columns) => columns.targets.iter().map(|column| column.name.clone()).collect(),
            None => (1..=self.sample_kind().targets.each()).map(|number| format!("target {number}")).collect(),
        }
    }

    /// What a csv must be like to be given to it; none if it was not trained on one.
    pub fn csv(&self) -> Option<CsvKind> {
        let columns = self.columns.clone()?;
        Some(CsvKind { columns, features: self.features })
    }

    /// Writes it into a run directory, whole or not at all.
    pub(crate) fn write(&self, dir: &Path) -> Result<()> {
        let path = dir.join(FILE);
        let mut text =
            serde_json::to_vec_pretty(self).map_err(|e| Error::internal(format!("{}: {e}", path.display())))?;
        text.push(b'\n');
        atomic::write(&path, &text)
    }

    /// Reads that of a run directory; none if an older version wrote the run.
    ///
    /// # Errors
    /// If it cannot be read, is damaged, or is of a newer format.
    pub fn read(dir: &Path) -> Result<Option<Self>> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        let path = dir.join(FILE);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("read", &path, &e)),
        };
        let damaged = |e: serde_json::Error| {
            Error::failure(format!(
                "{} is damaged: {e}; remove it, and the run is opened by its data as long as that is there",
                path.display()
            ))
        };
        let version: Version = serde_json::from_slice(&text).map_err(damaged)?;
        if version.format > FORMAT {
            return Err(Error::user(format!(
                "{} has format {}, newer than this program reads ({FORMAT}); update paceline",
                path.display(),
                version.format
            )));
        }
        serde_json::from_slice(&text).map(Some).map_err(damaged)
    }
}

fn one_class(classes: usize) -> TargetKind {
    TargetKind::Classes { classes, each: 1 }
}

/// How the images of these shards were brought to their size, if their index says it.
fn prepared_with(path: &Path) -> Option<Fit> {
    let index = Index::read(path).ok().flatten()?;
    let name = index.settings.get("fit")?.as_str()?.to_string();
    fit_name::of(&name)
}

/// `crop`, `pad` or `stretch`.
mod fit_name {
    use super::Fit;
    use serde::{Deserialize, Deserializer, Serializer};

    const NAMES: [(&str, Fit); 3] = [("crop", Fit::Crop), ("pad", Fit::Pad), ("stretch", Fit::Stretch)];

    pub(super) fn of(name: &str) -> Option<Fit> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, fit)| *fit)
    }

    pub(super) fn serialize<S: Serializer>(fit: &Fit, serializer: S) -> Result<S::Ok, S::Error> {
        let name = NAMES.iter().find(|(_, known)| known == fit).map_or("crop", |(name, _)| name);
        serializer.serialize_str(name)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Fit, D::Error> {
        let name = String::deserialize(deserializer)?;
        of(&name).ok_or_else(|| serde::de::Error::custom(format!("{name:?} is none of crop, pad and stretch")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paceline_data::csv::TargetColumn;

    /// As version 0.1.0 wrote it.
    const OLD: &str = r#"{"format": 1, "version": "0.1.0", "name": "mlp", "classes": ["a", "b", "c"], "shape": [4, 4],
        "values": {"bytes": {"scale": 0.003921569, "offset": 0.0}},
        "image": {"height": 4, "width": 4, "channels": 1, "fit": "crop"}, "parameters": [["hidden.weight", [16, 8]]]}"#;

    #[test]
    fn files_without_kinds_are_read_and_written_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), OLD).unwrap();
        let info = ModelInfo::read(dir.path()).unwrap().unwrap();
        assert_eq!(info.sample_kind(), SampleKind::classified(&[4, 4], 3));
        assert!(info.csv().is_none());
        let again: serde_json::Value = serde_json::from_str(&serde_json::to_string(&info).unwrap()).unwrap();
        assert_eq!(again, serde_json::from_str::<serde_json::Value>(OLD).unwrap());
    }

    #[test]
    fn kinds_and_columns_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let old: ModelInfo = serde_json::from_str(OLD).unwrap();
        let features = FeatureKind::Lists { width: paceline_base::sample::IndexWidth::Bits64, bound: u64::MAX };
        let target = |name: &str| TargetColumn { name: name.into(), classes: Vec::new() };
        let columns = Columns { features: vec!["items".into()], targets: vec![target("price"), target("size")] };
        let (targets, columns) = (Some(TargetKind::Numbers { each: 2 }), Some(columns));
        let info = ModelInfo {
            format: FORMAT,
            classes: Vec::new(),
            shape: Vec::new(),
            values: Values::Indices,
            image: None,
            features,
            targets,
            columns,
            ..old
        };
        info.write(dir.path()).unwrap();
        let back = ModelInfo::read(dir.path()).unwrap().unwrap();
        assert_eq!(back, info);
        assert_eq!(back.target_names(), ["price", "size"]);
        assert_eq!(back.sample_kind().targets.outputs(), 2);
    }
}
