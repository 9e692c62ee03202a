"""Classifier of speech acts: is whoever answers, summarises or acts told what to say, do, leave out or reveal?"""
