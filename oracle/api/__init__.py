"""The Python interface; `import oracle` offers its names."""
