//! The server's certificate, for everything that speaks TLS: read again when its file changes.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::watch;

use crate::config::Tls;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What the server shows of itself.
#[derive(Debug)]
pub(super) struct Certificate {
    files: Tls,
    shown: Arc<Shown>,
}

/// The certificate in force.
#[derive(Debug)]
struct Shown(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// What tells one version of a file from the next.
type Version = [Option<(SystemTime, u64)>; 2];

impl Certificate {
    /// Reads the files; the error says which of them is wrong, and what would be right.
    pub fn open(files: &Tls) -> Result<Certificate, String> {
        let shown = Arc::new(Shown(RwLock::new(Arc::new(read(files)?))));
        Ok(Certificate { files: files.clone(), shown })
    }

    /// TLS that shows it, for who speaks one of these protocols (ALPN); none: whatever they speak.
    pub fn shown_to(&self, protocols: &[&str]) -> Result<ServerConfig, String> {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().map_err(|e| e.to_string())?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(self.shown.clone());
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(config)
    }

    /// Takes up the files whenever they have changed. What cannot be used is logged, and the
    /// certificate in force stays.
    pub async fn follow(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let mut known = version(&self.files);
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => {}
                _ = stop.changed() => return,
            }
            let found = version(&self.files);
            if found == known {
                continue;
            }
            known = found;
            match read(&self.files) {
                Ok(key) => {
                    *self.shown.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(key);
                    tracing::info!("tls: the certificate was read again");
                }
                Err(problem) => tracing::warn!("{problem}; the certificate before stays"),
            }
        }
    }
}

fn version(files: &Tls) -> Version {
    let of = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.modified().ok()?, found.len()))
    };
    [of(&files.cert_file), of(&files.key_file)]
}

fn read(files: &Tls) -> Result<CertifiedKey, String> {
    let (cert, key) = (files.cert_file.display(), files.key_file.display());
    let certificates = CertificateDer::pem_file_iter(&files.cert_file)
        .and_then(|all| all.collect::<Result<Vec<_>, _>>())
        .map_err(|wrong| {
            format!("tls.cert_file: {cert}: {wrong}; a certificate in PEM is right")
        })?;
    if certificates.is_empty() {
        return Err(format!("tls.cert_file: {cert} holds no certificate in PEM"));
    }
    let private = PrivateKeyDer::from_pem_file(&files.key_file)
        .map_err(|wrong| format!("tls.key_file: {key}: {wrong}; a private key in PEM is right"))?;
    let signing = ring::sign::any_supported_type(&private)
        .map_err(|wrong| format!("tls.key_file: {key}: {wrong}; RSA, ECDSA or Ed25519 is right"))?;
    let certified = CertifiedKey::new(certificates, signing);
    match certified.keys_match() {
        // Of some kinds of keys that is not known.
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
            Ok(certified)
        }
        Err(wrong) => Err(format!("tls.key_file: {key} is not the key of {cert}: {wrong}")),
    }
}
