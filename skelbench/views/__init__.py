"""Views of clips: crop, augmentation, mask."""
