//! Dialogs in virtual time.

use super::*;
