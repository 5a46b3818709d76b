"""Pictures of skeletons in motion: film strips, animations, pages."""
