"""The state on disk: snapshot format, encryption, stores."""
