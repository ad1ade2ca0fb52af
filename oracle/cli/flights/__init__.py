"""The demo's material: real flights and their weather, a rule of flight to learn, and the report on what came out."""
