//! The talk page and the prompts' sound: compiled in, no build step, nothing fetched from
//! elsewhere.

use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use super::{Site, answer};

macro_rules! files {
    ($($name:literal: $kind:literal,)*) => {
        /// Every file of the pages, by name.
        const FILES: &[(&str, &str, &[u8])] = &[
            $(($name, $kind, include_bytes!(concat!("../../../web-demo/", $name))),)*
        ];
    };
}

files! {
    "index.html": "text/html; charset=utf-8",
    "style.css": "text/css; charset=utf-8",
    "ops.html": "text/html; charset=utf-8",
    "ops.css": "text/css; charset=utf-8",
    "ops.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "app.js": "text/javascript; charset=utf-8",
    "audio.js": "text/javascript; charset=utf-8",
    "call.js": "text/javascript; charset=utf-8",
    "debug.js": "text/javascript; charset=utf-8",
    "devices.js": "text/javascript; charset=utf-8",
    "gates.js": "text/javascript; charset=utf-8",
    "kept.js": "text/javascript; charset=utf-8",
    "lanes.js": "text/javascript; charset=utf-8",
    "line.js": "text/javascript; charset=utf-8",
    "peer.js": "text/javascript; charset=utf-8",
    "quality.js": "text/javascript; charset=utf-8",
    "realtime.js": "text/javascript; charset=utf-8",
    "refusal.js": "text/javascript; charset=utf-8",
    "transcript.js": "text/javascript; charset=utf-8",
    "worklet.js": "text/javascript; charset=utf-8",
}

/// The talk page.
pub async fn index() -> Response {
    serve("index.html").await
}

/// The operator's page.
pub async fn ops() -> Response {
    serve("ops.html").await
}

/// A file of a page.
pub async fn file(Path(name): Path<String>) -> Response {
    serve(&name).await
}

async fn serve(name: &str) -> Response {
    let Some((_, kind, bytes)) = FILES.iter().find(|(known, _, _)| *known == name) else {
        return answer::not_found().await;
    };
    let policy = "default-src 'self'; connect-src 'self' ws: wss:; img-src 'self' data:; \
                  media-src 'self' blob:; frame-ancestors 'none'";
    let headers = [
        (header::CONTENT_TYPE, *kind),
        (header::CACHE_CONTROL, "no-cache"),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, *bytes).into_response()
}

/// A prompt's sound as WAV, so that a page can say the truth without a call.
pub async fn prompt(
    State(site): State<Site>,
    Path((locale, file)): Path<(String, String)>,
) -> Response {
    let sound =
        file.strip_suffix(".wav").and_then(|prompt| site.service.prompts.original(prompt, &locale));
    let Some(pcm) = sound else { return answer::not_found().await };
    let spec = hound::WavSpec {
        channels: 1,
        sample_rate: pcm.rate_hz,
        bits_per_sample: 16,
        sample_format: hound::SampleFormat::Int,
    };
    let mut bytes = std::io::Cursor::new(Vec::new());
    let written = hound::WavWriter::new(&mut bytes, spec).and_then(|mut writer| {
        for sample in &pcm.samples {
            writer.write_sample(*sample)?;
        }
        writer.finalize()
    });
    match written {
        Ok(()) => ([(header::CONTENT_TYPE, "audio/wav")], bytes.into_inner()).into_response(),
        Err(problem) => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            answer::error(status, "prompt_unreadable", &problem.to_string(), None)
        }
    }
}
